-- quick in batch
SELECT id, EXTRACT(HOUR FROM ts) AS h, DATE_FORMAT(ts, 'yyyy-MM-dd HH:mm:ss.SSS') AS text, FLOOR(ts TO MINUTE) AS minute_,
  CEIL(ts TO DAY) AS next_day, ts + INTERVAL '1' HOUR AS later, `day` + INTERVAL '1' MONTH AS month_later,
  TIMESTAMPDIFF(SECOND, TIMESTAMP '2026-01-01 00:00:00', ts) AS seconds, CAST(ts AS DATE) AS d FROM orders;
