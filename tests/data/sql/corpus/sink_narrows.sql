-- modes: batch
CREATE TABLE target (id INT) WITH ('connector' = 'filesystem', 'path' = '${out}/sink_narrows', 'format' = 'json');
INSERT INTO target SELECT id FROM orders;
SELECT * FROM target;
