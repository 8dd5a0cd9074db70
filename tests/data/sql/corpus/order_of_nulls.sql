-- ordered
SELECT id, qty FROM orders ORDER BY qty, id;
