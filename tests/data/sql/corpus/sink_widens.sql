-- modes: batch
CREATE TABLE target (id DOUBLE, qty BIGINT, `day` TIMESTAMP(3))
WITH ('connector' = 'filesystem', 'path' = '${out}/sink_widens', 'format' = 'json');
INSERT INTO target SELECT id, qty, `day` FROM orders;
SELECT * FROM target;
