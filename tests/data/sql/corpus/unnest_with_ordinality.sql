SELECT id, tag, spot FROM tags CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, spot);
