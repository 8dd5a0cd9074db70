CREATE TABLE target (id BIGINT, tags ARRAY<STRING>, attrs MAP<STRING, STRING>, place ROW<city STRING, zip INT>)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'json');
INSERT INTO target SELECT id, tags, attrs, place FROM tags;
SELECT * FROM target;
