-- quick in batch
-- modes: batch
CREATE TABLE made WITH ('connector' = 'filesystem', 'path' = '${out}/create_as_select', 'format' = 'json')
AS SELECT shop, COUNT(*) AS n, SUM(amount) AS s FROM orders GROUP BY shop;
SELECT * FROM made;
