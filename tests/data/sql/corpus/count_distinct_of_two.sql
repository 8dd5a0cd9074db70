-- quick in streaming
SELECT COUNT(DISTINCT shop) AS a, COUNT(DISTINCT customer) AS b, COUNT(*) AS n FROM orders;
