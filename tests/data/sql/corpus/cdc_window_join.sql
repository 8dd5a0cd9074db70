-- open: window_start >= 2026-03-01
SELECT a.window_start, a.n, b.s FROM
  (SELECT window_start, window_end, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end) AS a
  JOIN (SELECT window_start, window_end, SUM(qty) AS s FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end) AS b
  ON a.window_start = b.window_start AND a.window_end = b.window_end;
