SELECT id, k, n FROM odd WHERE (n <> 3.5 AND n < 2147483648 AND NOT (n IN (5, 1))) OR k IN ('a ', '') AND id < 1E1;
