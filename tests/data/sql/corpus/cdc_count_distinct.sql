SELECT shop, COUNT(DISTINCT name) AS n FROM goods GROUP BY shop;
