-- quick in batch
WITH Big AS (SELECT * FROM orders WHERE amount > 10) SELECT id FROM big;
