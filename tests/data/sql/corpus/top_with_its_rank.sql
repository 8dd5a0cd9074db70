SELECT shop, id, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY id) AS place FROM orders) WHERE place <= 2;
