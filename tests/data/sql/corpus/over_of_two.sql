-- open: id >= 15
SELECT id, MIN(qty) OVER w AS mi, MAX(qty) OVER w AS ma, AVG(price) OVER w AS a FROM orders
  WINDOW w AS (PARTITION BY customer ORDER BY ts ROWS BETWEEN 2 PRECEDING AND CURRENT ROW);
