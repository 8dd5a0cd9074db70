-- modes: batch
CREATE TABLE target (id BIGINT, amount DECIMAL(3, 2))
WITH ('connector' = 'filesystem', 'path' = '${out}/sink_overflow', 'format' = 'json');
INSERT INTO target SELECT id, amount FROM orders;
SELECT * FROM target;
