CREATE TABLE total (place INT, n BIGINT, q INT, PRIMARY KEY (place) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = '${new}total', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO total SELECT 1, COUNT(*), SUM(qty) FROM goods;
SELECT * FROM total;
