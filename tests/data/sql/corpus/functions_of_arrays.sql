SELECT id, CARDINALITY(tags) AS a, tags[1] AS b, ARRAY_CONTAINS(tags, 'a') AS c, ARRAY_CONCAT(tags, ARRAY['z']) AS d, ARRAY_MAX(tags) AS e FROM tags;
