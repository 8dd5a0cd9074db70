-- kinder: Flink plans only the form of its documentation: SELECT DISTINCT of the compared columns before LATERAL
SELECT s.shop, t.id FROM shops AS s CROSS JOIN LATERAL (SELECT id FROM orders WHERE orders.shop = s.shop ORDER BY id DESC LIMIT 2) AS t;
