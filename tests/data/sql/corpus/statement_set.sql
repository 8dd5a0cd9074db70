CREATE TABLE a (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '${new}a', ${read}, 'format' = 'json');
CREATE TABLE b (shop STRING) WITH ('connector' = 'kafka', 'topic' = '${new}b', ${read}, 'format' = 'json');
EXECUTE STATEMENT SET BEGIN INSERT INTO a SELECT id FROM orders WHERE qty > 4; INSERT INTO b SELECT shop FROM orders WHERE qty > 4; END;
SELECT CAST(id AS STRING) AS x FROM a UNION ALL SELECT shop FROM b;
