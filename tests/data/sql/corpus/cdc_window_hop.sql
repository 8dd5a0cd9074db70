SELECT window_start, window_end, window_time, COUNT(*) AS n, SUM(qty) AS s FROM TABLE(HOP(TABLE visits, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))
GROUP BY window_start, window_end, window_time;
