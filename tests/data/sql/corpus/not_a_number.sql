-- quick in batch
SELECT id, x > 1 AS a, x = x AS b, x <> x AS c, x < 1 AS d, CAST(x AS STRING) AS t FROM points;
