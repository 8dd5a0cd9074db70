CREATE TABLE told (id BIGINT, order_id BIGINT) WITH ('connector' = 'kafka', 'topic' = '${in}orders;${in}payments', ${read}, 'format' = 'json');
SELECT id, order_id FROM told;
