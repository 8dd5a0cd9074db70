-- open: window_end >= 2026-03-01T12:00:00
SELECT window_end, shop, q FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY q DESC, shop) AS place FROM (
  SELECT window_start, window_end, shop, SUM(qty) AS q
  FROM TABLE(CUMULATE(TABLE orders, DESCRIPTOR(ts), INTERVAL '12' HOUR, INTERVAL '1' DAY)) WHERE shop IS NOT NULL
  GROUP BY window_start, window_end, shop)) WHERE place <= 1;
