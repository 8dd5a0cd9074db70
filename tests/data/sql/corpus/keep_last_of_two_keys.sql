SELECT shop, customer, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop, customer ORDER BY ts DESC) AS place FROM orders) WHERE place = 1;
