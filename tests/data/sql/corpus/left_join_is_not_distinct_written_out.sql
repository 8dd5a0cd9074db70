-- modes: streaming
SELECT s.id, t.id AS other FROM staff AS s LEFT JOIN teams AS t ON s.team = t.team OR (s.team IS NULL AND t.team IS NULL);
