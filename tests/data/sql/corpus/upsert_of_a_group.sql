CREATE TABLE target (customer STRING, n BIGINT, s DECIMAL(38, 2), PRIMARY KEY (customer) NOT ENFORCED)
WITH ('connector' = 'upsert-kafka', 'topic' = '${new}target', ${upsert}, 'key.format' = 'json', 'value.format' = 'json');
INSERT INTO target SELECT customer, COUNT(*), SUM(amount) FROM orders WHERE customer IS NOT NULL GROUP BY customer;
SELECT * FROM target;
