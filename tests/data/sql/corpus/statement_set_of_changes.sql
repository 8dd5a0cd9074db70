CREATE TABLE a (shop STRING PRIMARY KEY NOT ENFORCED, n BIGINT)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}a', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE b (id INT, city STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}b', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT shop, COUNT(*) FROM goods WHERE shop IS NOT NULL GROUP BY shop; INSERT INTO b SELECT id, name FROM goods WHERE qty > 3; END;
SELECT a.shop, a.n, b.id, b.city FROM a JOIN b ON a.n = b.id;
