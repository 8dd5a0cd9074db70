-- differs in batch: the first row of a group without an order is any of them
SELECT customer, FIRST_VALUE(shop) AS a, LAST_VALUE(amount) AS b, LAST_VALUE(id) FILTER (WHERE qty > 2) AS c, COUNT(*) AS n
FROM orders GROUP BY customer;
