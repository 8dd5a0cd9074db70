SELECT shop, GROUPING(shop) AS g, COUNT(*) AS n FROM orders GROUP BY ROLLUP (shop);
