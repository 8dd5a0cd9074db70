-- quick in batch
SELECT id, ARRAY_CONTAINS(tags, 'a') AS a, ARRAY_DISTINCT(tags) AS b, ARRAY_REVERSE(tags) AS c, ARRAY_JOIN(tags, '+') AS d FROM tags;
