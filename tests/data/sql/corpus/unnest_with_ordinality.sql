SELECT id, tag, place FROM tags CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, place);
