-- modes: batch
CREATE TABLE target (id DOUBLE, qty BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/sink_widens', 'format' = 'json');
INSERT INTO target SELECT id, qty FROM orders;
SELECT * FROM target;
