SELECT id, COALESCE(shop, 'none') AS a, NULLIF(qty, 1) AS b, IF(amount > 5, 1, 0) AS c, shop IS NULL AS d, GREATEST(qty, 2, 3) AS e,
  shop IS DISTINCT FROM customer AS f FROM orders;
