-- modes: streaming
-- open: n = 99
SELECT TUMBLE_START(o.ts, INTERVAL '5' MINUTE) AS s, COUNT(*) AS n, SUM(o.amount * p.rate) AS total, COUNT(p.rate) AS known
FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.shop = p.shop
GROUP BY TUMBLE(o.ts, INTERVAL '5' MINUTE);
