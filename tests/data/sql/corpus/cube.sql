-- quick in batch
SELECT shop, qty, COUNT(*) AS n, SUM(amount) AS s FROM orders WHERE id < 6 GROUP BY CUBE (shop, qty);
