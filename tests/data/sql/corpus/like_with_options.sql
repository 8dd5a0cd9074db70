CREATE TABLE base (id BIGINT, shop STRING) WITH ('connector' = 'kafka', 'topic' = 'nowhere', ${read}, 'format' = 'json');
CREATE TABLE mine WITH ('topic' = '${in}orders') LIKE base (OVERWRITING OPTIONS);
SELECT id, shop FROM mine WHERE id < 4;
