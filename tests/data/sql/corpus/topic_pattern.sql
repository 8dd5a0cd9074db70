CREATE TABLE told (id BIGINT) WITH ('connector' = 'kafka', 'topic-pattern' = '${in}ord.*', ${read}, 'format' = 'json');
SELECT id FROM told WHERE id > 12;
