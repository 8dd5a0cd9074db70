-- modes: streaming
CREATE TABLE target (id INT, name STRING, pay DECIMAL(10, 2), PRIMARY KEY (id, name) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT id, name, pay FROM staff;
SELECT * FROM target;
