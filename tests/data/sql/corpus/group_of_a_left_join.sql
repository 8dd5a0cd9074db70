SELECT s.shop, COUNT(o.id) AS n FROM shops AS s LEFT JOIN orders AS o ON o.shop = s.shop GROUP BY s.shop;
