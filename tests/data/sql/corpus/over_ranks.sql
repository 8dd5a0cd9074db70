-- quick in batch
SELECT id, RANK() OVER (PARTITION BY shop ORDER BY qty) AS r, DENSE_RANK() OVER (PARTITION BY shop ORDER BY qty) AS d FROM orders;
