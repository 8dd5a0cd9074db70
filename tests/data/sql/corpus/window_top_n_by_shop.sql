-- open: window_start >= 2026-03-01
SELECT window_start, shop, customer, n, place FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY n DESC, customer) AS place FROM (
    SELECT window_start, window_end, shop, customer, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY))
    WHERE shop IS NOT NULL AND customer IS NOT NULL GROUP BY window_start, window_end, shop, customer)) WHERE place <= 2;
