CREATE TABLE told (b BYTES) WITH ('connector' = 'kafka', 'topic' = '${in}lines', ${read}, 'format' = 'raw');
SELECT b FROM told;
