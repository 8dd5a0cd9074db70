SELECT id, k FROM odd WHERE k = CAST('a' AS CHAR(2)) OR k = 'b';
