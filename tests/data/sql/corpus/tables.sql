CREATE TABLE orders (
  id BIGINT, shop STRING, customer STRING, amount DECIMAL(10, 2), qty INT, price DOUBLE, ts TIMESTAMP(3), `day` DATE,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = '${in}orders', ${read}, 'format' = 'json');
CREATE TABLE shops (shop STRING, city STRING, n INT)
WITH ('connector' = 'kafka', 'topic' = '${in}shops', ${read}, 'format' = 'csv');
CREATE TABLE payments (
  order_id BIGINT, paid DECIMAL(10, 2), `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = '${in}payments', ${read}, 'format' = 'json');
CREATE TABLE rates (
  shop STRING, rate DECIMAL(10, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts
) WITH ('connector' = 'kafka', 'topic' = '${in}rates', ${read}, 'format' = 'json');
CREATE TABLE tags (
  id BIGINT, tags ARRAY<STRING>, attrs MAP<STRING, STRING>, items ARRAY<ROW<sku STRING, n INT>>,
  place ROW<city STRING, zip INT>
) WITH ('connector' = 'kafka', 'topic' = '${in}tags', ${read}, 'format' = 'json');
CREATE TABLE docs (id BIGINT, doc STRING)
WITH ('connector' = 'kafka', 'topic' = '${in}docs', ${read}, 'format' = 'json');
CREATE TABLE changes (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'kafka', 'topic' = '${in}changes', ${read}, 'format' = 'json');
CREATE TABLE points (id INT, d DECIMAL(8, 3), x DOUBLE, `day` DATE)
WITH ('connector' = 'kafka', 'topic' = '${in}points', ${read}, 'format' = 'csv');
CREATE TABLE lines (line STRING)
WITH ('connector' = 'kafka', 'topic' = '${in}lines', ${read}, 'format' = 'raw');
CREATE TABLE typed (
  id INT, b BOOLEAN, t TINYINT, s SMALLINT, f FLOAT, `by` BYTES, a ARRAY<ROW<x INT>>, m MAP<STRING, INT>,
  r ROW<p STRING, q ROW<z BIGINT>>
) WITH ('connector' = 'kafka', 'topic' = '${in}typed', ${read}, 'format' = 'json');
CREATE TABLE goods (id INT, name STRING, shop STRING, qty INT, price DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${in}goods', ${read}, 'format' = 'debezium-json');
CREATE TABLE clients (id INT, name STRING, city STRING, points INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${in}clients', ${read}, 'format' = 'canal-json');
CREATE TABLE stock (id INT, shop STRING, qty INT, PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${in}stock', ${read}, 'format' = 'maxwell-json');
CREATE TABLE accounts (id INT, currency STRING, balance DECIMAL(10, 2), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${in}accounts', ${read}, 'format' = 'ogg-json');
CREATE TABLE cities (shop STRING, city STRING, people INT, PRIMARY KEY (shop) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${in}cities', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE prices (
  shop STRING, rate DECIMAL(10, 2), ts TIMESTAMP(3), PRIMARY KEY (shop) NOT ENFORCED, WATERMARK FOR ts AS ts
) WITH ('connector' = 'upsert-kafka', 'topic' = '${in}prices', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
CREATE TABLE visits (
  id INT, shop STRING, qty INT, price DOUBLE, ts TIMESTAMP(3), PRIMARY KEY (id) NOT ENFORCED, WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = '${in}visits', ${read}, 'format' = 'debezium-json');
CREATE TABLE ledger (op STRING, id INT, shop STRING, qty INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts - INTERVAL '5' SECOND)
WITH ('connector' = 'kafka', 'topic' = '${in}ledger', ${read}, 'format' = 'json');
CREATE TABLE odd (
  id INT, k STRING, v DOUBLE, d DECIMAL(10, 2), e DECIMAL(12, 4), n INT, ts TIMESTAMP(3),
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'kafka', 'topic' = '${in}odd', ${read}, 'format' = 'json');
CREATE TABLE staff (
  id INT, name STRING, team STRING, pay DECIMAL(10, 2), bonus DECIMAL(6, 3), score DOUBLE, since TIMESTAMP(3),
  PRIMARY KEY (id) NOT ENFORCED
) WITH ('connector' = 'kafka', 'topic' = '${in}staff', ${read}, 'format' = 'debezium-json');
CREATE TABLE teams (id INT, team STRING, budget DECIMAL(8, 1), PRIMARY KEY (id) NOT ENFORCED)
WITH ('connector' = 'kafka', 'topic' = '${in}teams', ${read}, 'format' = 'debezium-json');
CREATE TABLE keyed (a INT, b STRING, v INT, PRIMARY KEY (a, b) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${in}keyed', ${upsert}, 'key.format' = 'json', 'value.format' = 'json',
  'value.fields-include' = 'EXCEPT_KEY');
