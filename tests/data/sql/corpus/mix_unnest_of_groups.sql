-- modes: streaming
SELECT t.tag, COUNT(*) AS n, COUNT(t.tag) AS c, SUM(g.id) AS s FROM tags AS g LEFT JOIN UNNEST(g.tags) AS t (tag) ON TRUE GROUP BY t.tag;
