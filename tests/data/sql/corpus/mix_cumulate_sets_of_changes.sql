-- modes: streaming
SELECT window_end, shop, COUNT(*) AS n, SUM(qty) AS q, COUNT(DISTINCT qty) AS d FROM TABLE(CUMULATE(TABLE visits, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '15' MINUTE))
GROUP BY window_start, window_end, ROLLUP (shop);
