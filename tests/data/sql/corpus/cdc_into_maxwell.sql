CREATE TABLE target (id INT, name STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'maxwell-json');
INSERT INTO target SELECT id, name FROM goods;
SELECT * FROM target;
