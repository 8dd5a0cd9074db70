SELECT o.city, COUNT(*) AS n FROM (
  SELECT o.id, s.city FROM orders AS o JOIN shops AS s ON o.shop = s.shop
  QUALIFY ROW_NUMBER() OVER (PARTITION BY s.city ORDER BY o.amount DESC, o.id) <= 3) AS o GROUP BY o.city;
