SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '-2' MINUTE)) GROUP BY window_start, window_end;
