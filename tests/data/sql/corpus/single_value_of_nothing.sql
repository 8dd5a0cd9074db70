SELECT id, (SELECT MAX(paid) FROM payments WHERE order_id > 1000) AS m, (SELECT COUNT(*) FROM payments WHERE order_id > 1000) AS n FROM orders WHERE id < 4;
