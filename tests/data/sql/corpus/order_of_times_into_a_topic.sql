-- modes: streaming
-- quick
-- open: id >= 15
CREATE TABLE mixed (id BIGINT, at_ TIMESTAMP(3), WATERMARK FOR at_ AS at_ - INTERVAL '20' SECOND)
WITH ('connector' = 'kafka', 'topic' = '${new}mixed', ${read}, 'format' = 'json');
CREATE TABLE in_order (id BIGINT, place BIGINT METADATA FROM 'offset' VIRTUAL)
WITH ('connector' = 'kafka', 'topic' = '${new}in_order', ${read}, 'format' = 'json');
INSERT INTO mixed SELECT id, CASE WHEN id < 15 THEN TIMESTAMPADD(SECOND, CAST(MOD(id * 7, 5) AS INT), TIMESTAMP '2026-01-01 00:00:00')
  ELSE TIMESTAMP '2026-01-02 00:00:00' END FROM orders;
INSERT INTO in_order SELECT id FROM mixed WHERE id <> 3 ORDER BY at_;
SELECT id, place FROM in_order;
