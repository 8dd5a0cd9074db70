-- quick in streaming
-- modes: streaming
-- open: id >= 11
CREATE TABLE parcels (id BIGINT, ts TIMESTAMP(3), best AS ts + INTERVAL '1' DAY, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'kafka', 'topic' = '${in}orders', ${read}, 'format' = 'json');
SELECT o.id, p.paid FROM parcels AS o LEFT JOIN payments AS p
  ON o.id = p.order_id AND p.`at` BETWEEN o.ts AND o.ts + INTERVAL '1' MINUTE AND p.`at` < o.best + INTERVAL '99' DAY;
