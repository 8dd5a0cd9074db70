-- quick in batch
-- ordered
SELECT id, amount FROM orders ORDER BY amount DESC NULLS LAST, id DESC;
