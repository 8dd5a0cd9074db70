CREATE TABLE told (id BIGINT, extra STRING, shop STRING) WITH ('connector' = 'kafka', 'topic' = '${in}orders', ${read}, 'format' = 'json');
SELECT id, extra, shop FROM told WHERE id > 5;
