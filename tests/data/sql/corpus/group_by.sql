SELECT shop, COUNT(*) AS n, COUNT(amount) AS m, SUM(amount) AS s, SUM(qty) AS q, AVG(qty) AS a, AVG(amount) AS b, MIN(ts) AS first_,
  MAX(customer) AS c FROM orders GROUP BY shop;
