-- quick in batch
SELECT id, COALESCE(shop, customer, '?') AS a, NULLIF(shop, 's1') AS b, IFNULL(qty, 0) AS c, IF(qty > 3, 'many', 'few') AS d,
  GREATEST(qty, 3) AS e, LEAST(qty, 3) AS f FROM orders;
