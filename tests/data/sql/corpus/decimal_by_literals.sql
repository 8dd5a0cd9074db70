-- quick in batch
SELECT id, amount / (3) AS a, amount / -3 AS b, amount / 3 AS c, amount * (2) AS d, (7) / amount AS e FROM orders WHERE amount > 0;
