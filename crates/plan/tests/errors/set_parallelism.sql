SET 'parallelism' = '129';
