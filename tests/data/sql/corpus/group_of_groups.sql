SELECT n, COUNT(*) AS shops FROM (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) GROUP BY n;
