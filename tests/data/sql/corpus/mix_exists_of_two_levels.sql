-- modes: streaming
SELECT s.id FROM staff AS s WHERE EXISTS (SELECT 1 FROM teams AS t WHERE t.team = s.team AND EXISTS (SELECT 1 FROM cities AS c WHERE c.people = t.id));
