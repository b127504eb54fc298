SET 'execution.savepoint.path' = '/savepoints/a';
