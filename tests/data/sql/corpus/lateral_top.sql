-- kinder: Flink plans only the form of its documentation: SELECT DISTINCT of the compared columns before LATERAL
-- quick in batch
SELECT s.shop, t.id FROM shops AS s, LATERAL (SELECT id FROM orders AS o WHERE o.shop = s.shop ORDER BY id DESC LIMIT 2) AS t;
