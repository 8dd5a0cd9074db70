-- kinder: Flink plans only the form of its documentation: SELECT DISTINCT of the compared columns before LATERAL
SELECT s.shop, t.id, t.qty FROM shops AS s LEFT JOIN LATERAL (SELECT id, qty FROM orders WHERE shop = s.shop ORDER BY qty DESC, id LIMIT 2) AS t ON TRUE;
