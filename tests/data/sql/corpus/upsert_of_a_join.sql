-- kinder: both tables have a key, so the rows of the join differ by `id`
CREATE TABLE target (id INT, name STRING, city STRING, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT g.id, g.name, c.city FROM goods AS g LEFT JOIN cities AS c ON g.shop = c.shop;
SELECT * FROM target;
