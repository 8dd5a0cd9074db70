-- quick in batch
-- modes: batch
CREATE TABLE target (id BIGINT, tags ARRAY<STRING>, attrs MAP<STRING, STRING>, place ROW<city STRING, zip INT>)
WITH ('connector' = 'filesystem', 'path' = '${out}/sink_nested', 'format' = 'json');
INSERT INTO target SELECT id, tags, attrs, place FROM tags;
SELECT * FROM target;
