SELECT s.city, o.id FROM shops AS s JOIN (SELECT * FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY id DESC) AS place FROM orders) WHERE place = 1) AS o ON s.shop = o.shop;
