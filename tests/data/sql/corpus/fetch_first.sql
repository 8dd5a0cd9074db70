-- quick in batch
-- ordered
SELECT id FROM orders ORDER BY id DESC FETCH FIRST 2 ROWS ONLY;
