SELECT shop AS k, COUNT(*) AS n FROM orders GROUP BY shop UNION ALL SELECT customer, COUNT(*) FROM orders GROUP BY customer;
