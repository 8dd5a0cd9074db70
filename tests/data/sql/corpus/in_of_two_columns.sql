SELECT id FROM orders WHERE (shop, customer) IN (SELECT shop, customer FROM orders WHERE qty > 4);
