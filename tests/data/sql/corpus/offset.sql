-- quick in streaming
-- ordered
SELECT id FROM orders ORDER BY id LIMIT 3 OFFSET 2;
