-- differs: Flink finds a NULL equal to a NULL here
SELECT shop, id, amount FROM (SELECT DISTINCT shop FROM orders) AS s, LATERAL (SELECT id, amount FROM orders WHERE shop = s.shop ORDER BY amount DESC, id LIMIT 2);
