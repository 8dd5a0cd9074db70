-- quick in batch
-- modes: batch
CREATE TABLE target (id BIGINT, shop STRING, qty INT)
WITH ('connector' = 'filesystem', 'path' = '${out}/sink_columns', 'format' = 'json');
INSERT INTO target (qty, id) SELECT qty, id FROM orders WHERE id < 4;
SELECT * FROM target;
