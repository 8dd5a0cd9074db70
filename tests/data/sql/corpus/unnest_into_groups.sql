SELECT tag, COUNT(*) AS n FROM tags CROSS JOIN UNNEST(tags.tags) AS t (tag) GROUP BY tag;
