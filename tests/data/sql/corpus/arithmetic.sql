-- quick in batch
SELECT id, qty / 2 AS half, qty % 3 AS rest, amount / qty AS unit, amount - 1 AS less, -qty AS negative,
  price / qty AS d, CAST(amount AS DOUBLE) / 3 AS third FROM orders WHERE qty <> 0;
