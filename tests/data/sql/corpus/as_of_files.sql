-- kinder: Flink joins with the table as it is only for connectors that look single rows up
CREATE TABLE side (shop STRING, city STRING) WITH ('connector' = 'filesystem', 'path' = '${out}/side', 'format' = 'json');
INSERT INTO side VALUES ('s1', 'Rome'), ('s2', 'Bern');
SELECT o.id, s.city FROM (SELECT *, PROCTIME() AS p FROM orders) AS o LEFT JOIN side FOR SYSTEM_TIME AS OF o.p AS s ON o.shop = s.shop;
