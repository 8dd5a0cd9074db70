CREATE TABLE told (k STRING, n INT) WITH ('connector' = 'kafka', 'topic' = '${in}lines', ${read}, 'format' = 'json',
  'json.ignore-parse-errors' = 'true');
SELECT k, n FROM told;
