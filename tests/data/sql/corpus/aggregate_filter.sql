SELECT shop, COUNT(*) FILTER (WHERE qty > 2) AS many, SUM(amount) FILTER (WHERE customer = 'bob') AS bobs FROM orders GROUP BY shop;
