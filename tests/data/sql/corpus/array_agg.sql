SELECT customer, ARRAY_AGG(id) AS a FROM orders WHERE customer IN ('cid', 'dee') GROUP BY customer;
