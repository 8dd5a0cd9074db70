CREATE TABLE target (k STRING, v INT, PRIMARY KEY (k) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY');
INSERT INTO target SELECT k, MAX(v) FROM changes GROUP BY k;
SELECT * FROM target;
