-- kinder: Flink plans only the form of its documentation: SELECT DISTINCT of the compared columns before LATERAL
SELECT c.shop, t.id, t.price FROM cities AS c, LATERAL (SELECT id, price FROM goods WHERE shop = c.shop ORDER BY price DESC, id LIMIT 2) AS t;
