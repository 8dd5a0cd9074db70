CREATE TABLE target (id INT, name STRING, qty INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'avro', 'value.format' = 'avro');
INSERT INTO target SELECT id, name, qty FROM goods;
SELECT * FROM target;
