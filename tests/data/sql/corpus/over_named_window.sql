-- open: id >= 15
SELECT id, SUM(qty) OVER w AS s, COUNT(*) OVER w AS n FROM orders WINDOW w AS (PARTITION BY shop ORDER BY ts);
