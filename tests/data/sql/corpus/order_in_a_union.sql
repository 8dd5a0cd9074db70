SELECT id FROM orders WHERE id < 5 UNION ALL (SELECT id FROM orders WHERE id > 9 ORDER BY amount);
