-- modes: batch
CREATE TABLE target (shop STRING, n BIGINT) WITH ('connector' = 'filesystem', 'path' = '${out}/sink_of_files', 'format' = 'json');
INSERT INTO target SELECT shop, COUNT(*) FROM orders GROUP BY shop;
SELECT t.shop, t.n, s.city FROM target AS t LEFT JOIN shops AS s ON t.shop = s.shop;
