-- modes: streaming
SELECT s, n, rn FROM (SELECT s, n, ROW_NUMBER() OVER (ORDER BY n DESC, s) AS rn FROM (
 SELECT TUMBLE_START(o.ts, INTERVAL '1' MINUTE) AS s, COUNT(*) AS n FROM orders AS o JOIN payments AS p ON o.id = p.order_id
 AND o.ts BETWEEN p.`at` - INTERVAL '2' MINUTE AND p.`at` GROUP BY TUMBLE(o.ts, INTERVAL '1' MINUTE))) WHERE rn <= 2;
