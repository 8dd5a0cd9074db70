-- quick in batch
SELECT shop, customer, COUNT(*) AS n FROM orders GROUP BY GROUPING SETS ((shop, customer), (shop), ());
