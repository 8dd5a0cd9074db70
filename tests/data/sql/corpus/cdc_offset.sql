-- kinder: Flink as a stream takes back a row that it never gave
SELECT id, qty FROM goods ORDER BY qty DESC, id LIMIT 2 OFFSET 1;
