CREATE DATABASE shop;
USE shop;
CREATE TABLE t (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '${in}orders', ${read}, 'format' = 'json');
USE default_database;
SELECT id FROM shop.t WHERE id > 10;
