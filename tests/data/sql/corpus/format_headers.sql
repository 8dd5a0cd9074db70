CREATE TABLE told (id BIGINT, h MAP<STRING, BYTES> METADATA FROM 'headers' VIRTUAL, e INT METADATA FROM 'leader-epoch' VIRTUAL, t STRING METADATA FROM 'timestamp-type' VIRTUAL)
WITH ('connector' = 'kafka', 'topic' = '${in}orders', ${read}, 'format' = 'json');
SELECT id, CARDINALITY(h) AS n, t FROM told WHERE id < 3;
