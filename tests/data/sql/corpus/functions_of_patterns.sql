-- quick in batch
SELECT id, REGEXP_EXTRACT(shop, '([a-z])([0-9])', 2) AS a, REGEXP_REPLACE(customer, '[aeiou]', '*') AS b, customer LIKE '_o%' AS c,
  REGEXP(shop, '^s[12]$') AS d, SPLIT_INDEX(customer, 'o', 0) AS e FROM orders;
