-- quick in streaming
-- open: id >= 15
SELECT id, SUM(qty) OVER (ORDER BY ts ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS s FROM orders;
