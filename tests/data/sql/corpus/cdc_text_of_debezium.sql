CREATE TABLE told (line STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
CREATE TABLE target (k STRING, v INT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'debezium-json');
INSERT INTO target SELECT shop, n FROM shops;
SELECT * FROM told;
