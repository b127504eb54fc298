SET 'table.local-time-zone' = '+08:00';
