-- quick in batch
SELECT id, amount - (SELECT MAX(paid) FROM payments) AS d FROM orders;
