SELECT id + 1 AS one_more, id FROM (SELECT id, ts FROM orders WHERE id > 2 ORDER BY ts) AS o;
