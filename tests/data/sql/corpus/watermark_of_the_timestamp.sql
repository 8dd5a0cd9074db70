-- open: window_start >= 2026-01-01T00:00:04
CREATE TABLE told (order_id BIGINT, at_ TIMESTAMP(3) METADATA FROM 'timestamp' VIRTUAL, WATERMARK FOR at_ AS at_)
WITH ('connector' = 'kafka', 'topic' = '${in}payments', ${read}, 'format' = 'json');
SELECT window_start, COUNT(*) AS n FROM TABLE(TUMBLE(TABLE told, DESCRIPTOR(at_), INTERVAL '2' SECOND)) GROUP BY window_start, window_end;
