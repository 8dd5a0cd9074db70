CREATE TABLE target (id BIGINT, tags ARRAY<STRING>, attrs MAP<STRING, STRING>, place ROW<city STRING, zip INT>)
WITH ('connector' = 'kafka', 'topic' = '${new}target', ${read}, 'format' = 'avro');
INSERT INTO target SELECT id, tags, attrs, place FROM tags WHERE id < 3;
SELECT * FROM target;
