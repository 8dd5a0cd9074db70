SELECT window_start, window_end, COUNT(*) AS n, MAX(qty) AS m FROM TABLE(CUMULATE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE, INTERVAL '30' MINUTE))
GROUP BY window_start, window_end;
