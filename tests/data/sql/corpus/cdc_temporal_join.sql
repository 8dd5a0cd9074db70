-- open: id >= 15
CREATE TABLE quotes (code STRING, rate DECIMAL(10, 2), ts TIMESTAMP(3), PRIMARY KEY (code) NOT ENFORCED, WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = '${in}quotes', ${read}, 'format' = 'debezium-json');
SELECT o.id, q.rate FROM orders AS o JOIN quotes FOR SYSTEM_TIME AS OF o.ts AS q ON o.shop = q.code;
