SELECT o.id + 1 AS one_more, o.id FROM (SELECT id FROM orders WHERE id > 2 ORDER BY amount) AS o;
