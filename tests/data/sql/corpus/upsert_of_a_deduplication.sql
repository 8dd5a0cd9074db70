CREATE TABLE target (k STRING, v INT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'csv', 'value.format' = 'json');
INSERT INTO target SELECT k, v FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS place FROM changes) WHERE place = 1;
SELECT * FROM target;
