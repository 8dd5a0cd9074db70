SELECT window_start, COUNT(*) AS n, SUM(qty) AS s FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) WHERE qty > 4 GROUP BY window_start, window_end;
