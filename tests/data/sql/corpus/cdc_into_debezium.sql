CREATE TABLE target (id INT, name STRING, price DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'debezium-json');
INSERT INTO target SELECT id, name, price FROM goods WHERE qty > 1;
SELECT * FROM target;
