-- modes: streaming
SELECT t.id, t.team, (SELECT COUNT(*) FROM staff AS s WHERE s.team = t.team AND s.bonus IS NOT NULL) AS n,
 (SELECT MAX(s.pay) FROM staff AS s WHERE s.team = t.team) AS most FROM teams AS t
WHERE (SELECT COUNT(*) FROM staff AS s WHERE s.team = t.team) <> 1;
