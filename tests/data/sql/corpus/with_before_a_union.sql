WITH big AS (SELECT id, shop FROM orders WHERE amount > 10), small AS (SELECT id, shop FROM orders WHERE amount < 1)
SELECT id, shop FROM big UNION ALL SELECT id, shop FROM small;
