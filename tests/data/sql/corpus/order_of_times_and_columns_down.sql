-- modes: streaming
-- open: id >= 15
CREATE TABLE mixed (id BIGINT, shop STRING, at_ TIMESTAMP(3), WATERMARK FOR at_ AS at_ - INTERVAL '20' SECOND)
WITH ('connector' = 'kafka', 'topic' = '${new}mixed', ${read}, 'format' = 'json');
CREATE TABLE in_order (id BIGINT, shop STRING, place BIGINT METADATA FROM 'offset' VIRTUAL)
WITH ('connector' = 'kafka', 'topic' = '${new}in_order', ${read}, 'format' = 'json');
INSERT INTO mixed SELECT id, shop, CASE WHEN id < 15 THEN TIMESTAMPADD(SECOND, CAST(MOD(id * 7, 3) AS INT), TIMESTAMP '2026-01-01 00:00:00')
  ELSE TIMESTAMP '2026-01-02 00:00:00' END FROM orders;
INSERT INTO in_order SELECT id, shop FROM mixed ORDER BY at_, shop DESC NULLS FIRST, id + 1 DESC;
SELECT * FROM in_order;
