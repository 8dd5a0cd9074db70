SELECT id, UPPER(customer) AS a, CONCAT_WS('/', shop, customer, 'x') AS b, REVERSE(customer) AS c, LEFT(customer, 2) AS d,
  RPAD(shop, 5, '-') AS e, TRIM(LEADING 's' FROM shop) AS f, REPEAT(shop, 2) AS g, LOCATE('n', customer) AS h FROM orders;
