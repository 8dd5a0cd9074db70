SELECT id, CASE WHEN amount > 50 THEN 'large' WHEN amount > 5 THEN 'medium' ELSE 'small' END AS size,
  CASE shop WHEN 's1' THEN 1 WHEN 's2' THEN 2 END AS n FROM orders;
