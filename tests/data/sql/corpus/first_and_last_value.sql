-- differs in batch: the first row of a group without an order is any of them
-- quick in batch
SELECT shop, FIRST_VALUE(id) AS a, LAST_VALUE(id) AS b FROM orders GROUP BY shop;
