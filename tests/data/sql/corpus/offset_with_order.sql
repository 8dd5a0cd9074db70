-- kinder in batch: Flink has no OFFSET without LIMIT behind ORDER BY
SELECT id FROM orders ORDER BY id OFFSET 10;
