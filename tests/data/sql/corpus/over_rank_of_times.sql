-- quick in streaming
-- open: id >= 15
SELECT id, RANK() OVER (PARTITION BY shop ORDER BY ts) AS r, DENSE_RANK() OVER (PARTITION BY shop ORDER BY ts) AS d FROM orders;
