SELECT o.shop, SUM(o.amount * p.rate) AS s FROM orders AS o JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.shop = p.shop
  WHERE o.id < 15 GROUP BY o.shop;
