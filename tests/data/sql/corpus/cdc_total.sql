SELECT COUNT(*) AS n, SUM(qty) AS q, MAX(name) AS m FROM goods;
