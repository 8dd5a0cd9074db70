-- modes: streaming
CREATE TABLE target (shop STRING, n BIGINT, low BIGINT, PRIMARY KEY (shop) NOT ENFORCED) WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT s, COUNT(*), MIN(a) FROM (SELECT o.shop AS s, o.id AS a, q.id AS b, r.city FROM orders AS o JOIN orders AS q ON o.shop = q.shop JOIN shops AS r ON r.shop = q.shop WHERE o.id > r.n) GROUP BY s;
SELECT * FROM target;
