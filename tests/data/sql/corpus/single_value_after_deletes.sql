-- modes: streaming
SELECT id, (SELECT COUNT(*) FROM goods WHERE id = 4) AS n, (SELECT MAX(qty) FROM goods WHERE id = 4) AS m FROM orders WHERE id < 4;
