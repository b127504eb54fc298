SET 'epoch-interval' = 'soon';
