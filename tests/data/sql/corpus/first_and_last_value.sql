-- quick in batch
SELECT shop, FIRST_VALUE(id) AS a, LAST_VALUE(id) AS b FROM orders GROUP BY shop;
