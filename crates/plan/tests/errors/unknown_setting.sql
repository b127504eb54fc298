SET 'epoch-intervall' = '1 s';
