-- modes: streaming
CREATE TABLE target (id BIGINT, amount STRING, shop STRING, other BIGINT) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT o.id, CAST(q.amount AS STRING), r.shop, r.id FROM orders AS o JOIN orders AS q ON o.shop = q.shop AND o.id = q.id JOIN orders AS r ON r.id = q.id AND o.shop = r.shop WHERE r.id > 1;
SELECT * FROM target;
