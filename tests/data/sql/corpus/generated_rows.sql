CREATE TABLE made (id BIGINT, n INT) WITH ('connector' = 'datagen', 'number-of-rows' = '20', 'fields.id.kind' = 'sequence', 'fields.id.start' = '1',
  'fields.id.end' = '20', 'fields.n.min' = '3', 'fields.n.max' = '3');
SELECT n, COUNT(*) AS c, SUM(id) AS s FROM made GROUP BY n;
