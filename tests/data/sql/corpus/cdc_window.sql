SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE prices, DESCRIPTOR(ts), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
