CREATE TABLE priced (id BIGINT, amount DECIMAL(10, 2), qty INT, total AS amount * qty, label AS CONCAT('o', CAST(id AS STRING)))
WITH ('connector' = 'kafka', 'topic' = '${in}orders', ${read}, 'format' = 'json');
SELECT id, total, label FROM priced WHERE total > 20;
