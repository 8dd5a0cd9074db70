-- quick in batch
SELECT SUM(shop) AS s FROM orders;
