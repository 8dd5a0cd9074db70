-- kinder: the rows differ by the window and the shop, which are the PRIMARY KEY
-- open: b >= 2026-03-01
CREATE TABLE target (b TIMESTAMP(3), e TIMESTAMP(3), shop STRING, n BIGINT, PRIMARY KEY (b, e, shop) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT window_start, window_end, shop, COUNT(*) FROM TABLE(TUMBLE(TABLE orders, DESCRIPTOR(ts), INTERVAL '1' DAY))
WHERE shop IS NOT NULL GROUP BY window_start, window_end, shop;
SELECT * FROM target;
