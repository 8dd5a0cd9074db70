-- modes: streaming
SELECT id FROM orders WHERE id < 4 AND (SELECT COUNT(*) FROM goods WHERE id = 4) = 0;
