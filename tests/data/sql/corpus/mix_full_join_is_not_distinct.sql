-- modes: streaming
SELECT s.id, t.id AS other, t.budget FROM staff AS s LEFT JOIN teams AS t ON s.team IS NOT DISTINCT FROM t.team;
