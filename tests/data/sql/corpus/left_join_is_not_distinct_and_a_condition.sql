-- modes: streaming
SELECT s.id, t.id AS other FROM staff AS s LEFT JOIN teams AS t ON s.team IS NOT DISTINCT FROM t.team AND t.budget > 20 AND s.id <> 4;
