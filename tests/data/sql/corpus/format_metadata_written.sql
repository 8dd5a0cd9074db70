CREATE TABLE target (id BIGINT, at_ TIMESTAMP_LTZ(3) METADATA FROM 'timestamp', h MAP<STRING, BYTES> METADATA FROM 'headers')
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json', 'properties.retention.ms' = '-1');
INSERT INTO target SELECT id, CAST(ts AS TIMESTAMP_LTZ(3)), MAP['shop', CAST(shop AS BYTES)] FROM orders WHERE id < 4;
SELECT id, CAST(at_ AS TIMESTAMP(3)) AS at_, CAST(h['shop'] AS STRING) AS shop FROM target;
