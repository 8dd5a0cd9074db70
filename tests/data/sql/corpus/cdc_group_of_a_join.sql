SELECT c.city, COUNT(*) AS n, SUM(g.price) AS p FROM goods AS g JOIN cities AS c ON g.shop = c.shop GROUP BY c.city;
