-- quick in streaming
SELECT s.city, COUNT(*) AS n, SUM(o.amount) AS a FROM orders AS o JOIN shops AS s ON o.shop = s.shop GROUP BY s.city;
