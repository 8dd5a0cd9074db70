WITH w AS (SELECT window_time AS t, shop, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, window_time, shop)
SELECT window_start, SUM(n) AS n FROM TABLE(TUMBLE(TABLE w, DESCRIPTOR(t), INTERVAL '30' MINUTE)) GROUP BY window_start, window_end;
