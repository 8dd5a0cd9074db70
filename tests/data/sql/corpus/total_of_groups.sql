SELECT COUNT(*) AS n, SUM(q) AS q, MAX(q) AS m FROM (SELECT shop, SUM(qty) AS q FROM goods GROUP BY shop);
