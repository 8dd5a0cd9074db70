-- quick in batch
SELECT id, CAST(qty AS STRING) AS a, CAST(amount AS INT) AS b, CAST(price AS DECIMAL(6, 1)) AS c, TRY_CAST(shop AS INT) AS d,
  CAST(`day` AS TIMESTAMP(3)) AS e, CAST(id AS DOUBLE) AS f, CAST(amount AS STRING) AS g FROM orders;
