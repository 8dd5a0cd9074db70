SELECT city, id FROM (SELECT s.city, o.id, ROW_NUMBER() OVER (PARTITION BY s.city ORDER BY o.qty DESC, o.id) AS place
  FROM orders AS o JOIN shops AS s ON o.shop = s.shop) WHERE place <= 2;
