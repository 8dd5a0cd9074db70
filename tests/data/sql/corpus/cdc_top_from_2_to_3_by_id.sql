-- modes: streaming
-- kinder: Flink wants ON CONFLICT, because it knows one key of the rows of a Top-N, which is another one
CREATE TABLE target (id INT, shop STRING, PRIMARY KEY (id) NOT ENFORCED) WITH (
  'connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT id, shop FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC, id) AS n FROM goods) WHERE n BETWEEN 2 AND 3;
SELECT * FROM target;
