-- modes: streaming
SELECT x.id, x.tag, o.shop FROM (SELECT id, tag, spot FROM tags CROSS JOIN UNNEST(tags) WITH ORDINALITY AS t (tag, spot)) AS x
LEFT JOIN orders AS o ON x.spot = o.id;
