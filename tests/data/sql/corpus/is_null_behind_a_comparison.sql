SELECT id FROM orders WHERE qty = 1 IS NULL;
