-- quick in batch
SELECT shop, COUNT(*), SUM(qty) + 1, 'x', shop || '!' FROM orders GROUP BY shop;
