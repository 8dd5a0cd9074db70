-- kinder: Flink plans only the form of its documentation: SELECT DISTINCT of the compared columns before LATERAL
SELECT a.shop, a.customer, t.id FROM (SELECT DISTINCT shop, customer FROM orders) AS a, LATERAL (SELECT id FROM orders WHERE shop = a.shop AND customer = a.customer ORDER BY ts DESC LIMIT 1) AS t;
