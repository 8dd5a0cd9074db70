SELECT a.shop, a.n, b.m FROM (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) AS a
  FULL JOIN (SELECT shop, MAX(n) AS m FROM shops GROUP BY shop) AS b ON a.shop = b.shop;
