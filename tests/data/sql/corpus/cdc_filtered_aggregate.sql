SELECT shop, COUNT(*) FILTER (WHERE price > 2) AS n, SUM(qty) FILTER (WHERE name LIKE 'r%') AS q FROM goods GROUP BY shop;
