SELECT id, k, n FROM odd WHERE n NOT IN (1, 3) AND k <> 'a' AND NOT (n BETWEEN 4 AND 2) AND id >= 2.5;
