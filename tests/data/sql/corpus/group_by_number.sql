SELECT shop, COUNT(*) AS n FROM orders GROUP BY 1;
