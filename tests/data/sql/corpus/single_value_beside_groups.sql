-- quick in streaming
SELECT o.shop AS s, SUM(o.amount) - (SELECT MIN(amount) FROM orders) AS more, COUNT(*) FILTER (WHERE o.qty > 2) AS n
FROM orders AS o WHERE o.id < 14 GROUP BY o.shop HAVING COUNT(*) > (SELECT COUNT(*) FROM shops) - 2 AND o.shop <> 's3';
