SELECT customer, id FROM (SELECT id, customer, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY price DESC, id) AS place FROM orders
  WHERE price IS NOT NULL) WHERE place <= 3;
