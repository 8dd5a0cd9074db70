SELECT s.city, COUNT(*) AS n FROM orders AS o JOIN shops AS s ON o.shop = s.shop GROUP BY s.city HAVING COUNT(*) > 4;
