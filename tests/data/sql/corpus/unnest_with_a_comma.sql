SELECT id, tag FROM tags, UNNEST(tags) AS t (tag) WHERE tag = 'a';
