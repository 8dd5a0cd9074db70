SELECT id, INITCAP(customer) AS a, CONCAT_WS('-', shop, customer) AS b, REVERSE(customer) AS c, LEFT(customer, 2) AS d,
  RIGHT(customer, 1) AS e, OVERLAY(customer PLACING 'XX' FROM 2 FOR 1) AS f, TRIM(BOTH 'b' FROM customer) AS g FROM orders;
