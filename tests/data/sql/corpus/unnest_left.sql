-- quick in batch
SELECT id, tag FROM tags LEFT JOIN UNNEST(tags) AS t (tag) ON TRUE;
