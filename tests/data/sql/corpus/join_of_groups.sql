SELECT a.shop, a.n, b.m FROM (SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop) AS a
  JOIN (SELECT shop, MAX(amount) AS m FROM orders GROUP BY shop) AS b ON a.shop = b.shop;
