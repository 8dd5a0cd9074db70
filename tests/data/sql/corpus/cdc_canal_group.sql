-- quick in streaming
SELECT city, COUNT(*) AS n, SUM(points) AS p FROM clients GROUP BY city;
