-- kinder in streaming: a window over rows that change may be over any time
CREATE VIEW v AS SELECT ts, SUM(qty) AS q FROM orders GROUP BY ts;
SELECT window_start, SUM(q) AS n FROM TABLE(TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end;
