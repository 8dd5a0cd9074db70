-- quick in batch
SELECT id, k, v FROM tags CROSS JOIN UNNEST(attrs) AS t (k, v);
