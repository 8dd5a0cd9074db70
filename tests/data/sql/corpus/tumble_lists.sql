-- differs in batch: LISTAGG has the values in another order, as in docs/sql.md
-- open: window_start >= 2026-03-01
SELECT window_start, window_end, LISTAGG(shop, '-') AS l, COUNT(shop) AS n
FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE)) GROUP BY window_start, window_end;
