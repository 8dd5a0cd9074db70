-- modes: streaming
SELECT c.city, SUM(c.people) AS people, COUNT(p.rate) AS n, MAX(p.rate) AS r FROM cities AS c FULL JOIN prices AS p ON c.shop = p.shop GROUP BY c.city;
