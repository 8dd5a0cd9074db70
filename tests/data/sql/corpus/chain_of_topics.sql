CREATE TABLE big (id BIGINT, shop STRING, amount DECIMAL(10, 2)) WITH ('connector' = 'kafka', 'topic' = '${new}big', ${read}, 'format' = 'json');
CREATE TABLE totals (shop STRING, s DECIMAL(38, 2), PRIMARY KEY (shop) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}totals', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO big SELECT id, shop, amount FROM orders WHERE amount > 5 AND shop IS NOT NULL;
INSERT INTO totals SELECT shop, SUM(amount) FROM big GROUP BY shop;
SELECT * FROM totals;
