SELECT window_start, shop, n, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY n DESC, shop) AS place FROM (
  SELECT window_start, window_end, shop, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE))
  GROUP BY window_start, window_end, shop)) WHERE place <= 1;
