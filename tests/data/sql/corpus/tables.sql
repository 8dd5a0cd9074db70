CREATE TABLE orders (
  id BIGINT, shop STRING, customer STRING, amount DECIMAL(10, 2), qty INT, price DOUBLE, ts TIMESTAMP(3), `day` DATE,
  WATERMARK FOR ts AS ts - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/orders.json', 'format' = 'json');
CREATE TABLE shops (shop STRING, city STRING, n INT)
WITH ('connector' = 'filesystem', 'path' = '${data}/shops.csv', 'format' = 'csv');
CREATE TABLE payments (
  order_id BIGINT, paid DECIMAL(10, 2), `at` TIMESTAMP(3), WATERMARK FOR `at` AS `at` - INTERVAL '5' SECOND
) WITH ('connector' = 'filesystem', 'path' = '${data}/payments.json', 'format' = 'json');
CREATE TABLE rates (
  shop STRING, rate DECIMAL(10, 2), ts TIMESTAMP(3), WATERMARK FOR ts AS ts
) WITH ('connector' = 'filesystem', 'path' = '${data}/rates.json', 'format' = 'json');
CREATE TABLE tags (
  id BIGINT, tags ARRAY<STRING>, attrs MAP<STRING, STRING>, items ARRAY<ROW<sku STRING, n INT>>,
  place ROW<city STRING, zip INT>
) WITH ('connector' = 'filesystem', 'path' = '${data}/tags.json', 'format' = 'json');
CREATE TABLE docs (id BIGINT, doc STRING)
WITH ('connector' = 'filesystem', 'path' = '${data}/docs.json', 'format' = 'json');
CREATE TABLE changes (k STRING, v INT, ts TIMESTAMP(3), WATERMARK FOR ts AS ts)
WITH ('connector' = 'filesystem', 'path' = '${data}/changes.json', 'format' = 'json');
CREATE TABLE points (id INT, d DECIMAL(8, 3), x DOUBLE, `day` DATE)
WITH ('connector' = 'filesystem', 'path' = '${data}/points.csv', 'format' = 'csv');
