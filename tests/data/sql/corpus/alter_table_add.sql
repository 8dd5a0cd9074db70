CREATE TABLE mine (id BIGINT) WITH ('connector' = 'kafka', 'topic' = '${in}orders', ${read}, 'format' = 'json');
ALTER TABLE mine ADD (qty INT, twice AS qty * 2);
SELECT id, qty, twice FROM mine;
