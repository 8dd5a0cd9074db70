SELECT a.id, b.order_id, a.window_start FROM
  (SELECT * FROM TABLE(HOP(TABLE orders, DESCRIPTOR(ts), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))) AS a
  JOIN (SELECT * FROM TABLE(HOP(TABLE payments, DESCRIPTOR(`at`), INTERVAL '5' MINUTE, INTERVAL '10' MINUTE))) AS b
  ON a.window_start = b.window_start AND a.window_end = b.window_end AND a.id = b.order_id;
