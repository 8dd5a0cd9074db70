-- quick in streaming
SELECT city, COUNT(*) AS n, SUM(people) AS p FROM cities GROUP BY city;
