SELECT DISTINCT shop, customer FROM orders;
