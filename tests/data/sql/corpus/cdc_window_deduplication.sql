-- kinder: a Top-N takes rows that change, also of windows
SELECT window_start, shop, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end, shop ORDER BY ts DESC) AS place
  FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE))) WHERE place = 1;
