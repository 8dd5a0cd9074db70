-- open: id >= 11 or order_id = 3
SELECT a.id, b.order_id FROM
  (SELECT * FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' MINUTE))) AS a
  FULL JOIN (SELECT * FROM TABLE(TUMBLE(TABLE payments, DESCRIPTOR(`at`), INTERVAL '1' MINUTE))) AS b
  ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.id = b.order_id;
