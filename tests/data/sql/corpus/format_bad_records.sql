-- quick in batch
CREATE TABLE told (k STRING, n INT) WITH ('connector' = 'kafka', 'topic' = '${in}lines', ${read}, 'format' = 'json');
SELECT k, n FROM told;
