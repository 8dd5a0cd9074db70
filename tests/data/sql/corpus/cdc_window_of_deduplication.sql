CREATE VIEW v AS SELECT shop, qty, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY ts DESC) AS place FROM orders) WHERE place = 1;
SELECT window_start, COUNT(*) AS n, SUM(qty) AS s FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
