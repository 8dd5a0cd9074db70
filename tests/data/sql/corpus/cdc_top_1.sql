SELECT shop, id, price FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY price DESC, id) AS place FROM goods) WHERE place = 1;
