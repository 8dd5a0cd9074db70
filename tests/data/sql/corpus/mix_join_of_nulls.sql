-- modes: streaming
SELECT s.id, t.id AS other, t.team FROM staff AS s JOIN teams AS t ON s.team IS NOT DISTINCT FROM t.team;
