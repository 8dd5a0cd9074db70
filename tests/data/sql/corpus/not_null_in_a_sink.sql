-- modes: batch
CREATE TABLE target (shop STRING NOT NULL) WITH ('connector' = 'filesystem', 'path' = '${out}/not_null', 'format' = 'json');
INSERT INTO target SELECT shop FROM orders;
SELECT * FROM target;
