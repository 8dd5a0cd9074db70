-- quick in batch
SELECT id, amount / id AS a, amount * id AS b, amount + id AS c, id / amount AS d FROM orders WHERE amount > 0;
