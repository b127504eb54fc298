DROP DATABASE default_database;
