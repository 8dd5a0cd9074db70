-- modes: streaming
-- open: n = 99
CREATE VIEW paid AS SELECT o.ts, o.amount, p.rate FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.shop = p.shop;
SELECT window_start, COUNT(*) AS n, SUM(amount * rate) AS total FROM TABLE(TUMBLE(TABLE paid, DESCRIPTOR(ts), INTERVAL '5' MINUTE)) GROUP BY window_start, window_end;
