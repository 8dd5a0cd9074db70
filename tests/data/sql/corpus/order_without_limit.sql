SELECT id FROM orders ORDER BY amount;
