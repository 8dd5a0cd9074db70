-- quick in streaming
SET 'table.exec.source.cdc-events-duplicate' = 'true';
CREATE TABLE twice (id INT, v INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${in}twice', ${read}, 'format' = 'debezium-json');
SELECT id, v FROM twice;
