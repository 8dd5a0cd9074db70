SELECT id, tag FROM tags CROSS JOIN UNNEST(tags) AS t (tag);
