-- modes: batch
CREATE TABLE target (a INT, b STRING, c DOUBLE) WITH ('connector' = 'filesystem', 'path' = '${out}/sink_of_values', 'format' = 'json');
INSERT INTO target VALUES (1, 'x', 1.5), (2, 'y', 2.5), (3, CAST(NULL AS STRING), 3);
SELECT * FROM target;
