CREATE TABLE told (line STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
CREATE TABLE target (id INT, s STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json',
  'json.fail-on-missing-field' = 'true');
INSERT INTO told VALUES ('{"id": 1, "s": "a"}'), ('{"id": 2}');
SELECT * FROM target;
