-- quick in batch
SELECT shop, qty, COUNT(*) AS n FROM orders WHERE id < 6 GROUP BY ROLLUP (shop, qty);
