-- quick in batch
SELECT id FROM orders WHERE id = '3' OR qty > '8';
