SELECT shop, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY amount DESC, id) AS n FROM orders) WHERE n = 1;
