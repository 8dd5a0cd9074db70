-- quick in batch
WITH Large AS (SELECT * FROM orders WHERE amount > 10) SELECT id FROM large;
