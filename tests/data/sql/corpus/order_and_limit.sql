-- quick in batch
-- ordered
SELECT id, amount FROM orders ORDER BY amount DESC, id LIMIT 4;
