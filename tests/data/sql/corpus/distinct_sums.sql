SELECT shop, SUM(DISTINCT qty) AS s, AVG(DISTINCT qty) AS a, SUM(DISTINCT amount) AS d, AVG(DISTINCT price) AS p,
  SUM(DISTINCT qty) FILTER (WHERE customer <> 'ann') AS f FROM orders GROUP BY shop;
