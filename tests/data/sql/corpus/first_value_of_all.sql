-- differs in batch: the first row of a group without an order is any of them
SELECT FIRST_VALUE(id) AS a, LAST_VALUE(customer) AS b FROM orders;
