-- open: id >= 15
-- quick in batch
SELECT id, SUM(qty) OVER (PARTITION BY shop ORDER BY ts ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS s FROM orders;
