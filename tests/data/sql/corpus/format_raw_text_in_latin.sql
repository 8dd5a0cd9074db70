CREATE TABLE told (b BYTES) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
CREATE TABLE target (s STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw', 'raw.charset' = 'ISO-8859-1');
INSERT INTO target VALUES ('é'), ('a');
SELECT * FROM told;
