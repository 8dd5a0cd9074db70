-- modes: streaming
SELECT s.id, t.id AS other FROM staff AS s FULL JOIN teams AS t ON s.team IS NOT DISTINCT FROM t.team;
