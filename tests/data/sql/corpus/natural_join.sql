-- quick in batch
SELECT * FROM (SELECT shop, id FROM orders) NATURAL JOIN (SELECT shop, city FROM shops);
