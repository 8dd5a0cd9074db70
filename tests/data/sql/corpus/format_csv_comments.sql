CREATE TABLE told (line STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'raw');
CREATE TABLE target (id INT, s STRING) WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'csv',
  'csv.allow-comments' = 'true', 'csv.ignore-parse-errors' = 'true');
INSERT INTO told VALUES ('1,a'), ('#2,b'), ('x,c'), ('4,"d,e"');
SELECT * FROM target;
