-- modes: streaming
-- kinder: Flink wants ON CONFLICT, because it knows one key of the rows of a Top-N, which is another one
CREATE TABLE target (shop STRING, id INT, qty INT, PRIMARY KEY (shop) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT shop, id, qty FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC, id) AS n FROM goods WHERE shop IS NOT NULL) WHERE n = 2;
SELECT * FROM target;
