-- differs: Flink finds a NULL equal to a NULL here
SELECT s.shop, t.id, t.amount FROM (SELECT DISTINCT shop FROM orders) AS s, LATERAL (SELECT id, amount FROM orders WHERE shop = s.shop ORDER BY amount DESC, id LIMIT 2) AS t;
