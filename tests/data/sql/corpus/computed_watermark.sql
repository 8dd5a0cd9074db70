-- open: window_start >= 2026-03-01
CREATE TABLE texts (id BIGINT, ts STRING, t AS TO_TIMESTAMP(SUBSTRING(ts, 1, 19)), WATERMARK FOR t AS t - INTERVAL '1' SECOND)
WITH ('connector' = 'kafka', 'topic' = '${in}orders', ${read}, 'format' = 'json');
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE texts, DESCRIPTOR(t), INTERVAL '1' DAY)) GROUP BY window_start, window_end;
