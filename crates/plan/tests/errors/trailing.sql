SELECT a FROM b c d e;
