SELECT a, b FROM (VALUES (1, 'x'), (2, 'y'), (3, CAST(NULL AS STRING))) AS t (a, b) WHERE a > 1;
