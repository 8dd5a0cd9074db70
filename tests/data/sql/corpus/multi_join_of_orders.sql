-- modes: streaming
CREATE TABLE target (id BIGINT, paid DECIMAL(10, 2), shop STRING, same BIGINT) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT o.id, p.paid, q.shop, q.id FROM orders AS o JOIN payments AS p ON o.id = p.order_id JOIN orders AS q ON q.id = p.order_id;
SELECT * FROM target;
