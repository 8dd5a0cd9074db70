CREATE TABLE told (line STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
CREATE TABLE target (d DECIMAL(20, 10)) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json',
  'json.encode.decimal-as-plain-number' = 'true');
INSERT INTO target VALUES (CAST(0.0000001 AS DECIMAL(20, 10))), (CAST(1 AS DECIMAL(20, 10)));
SELECT * FROM told;
