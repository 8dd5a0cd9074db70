-- differs: the type of CEIL of a DECIMAL has a digit less
SELECT id, ABS(qty) AS a, ROUND(price, 1) AS b, FLOOR(price) AS c, CEIL(amount) AS d, MOD(id, 4) AS e, POWER(qty, 2) AS f, SIGN(price) AS g,
  SQRT(amount) AS h FROM orders;
