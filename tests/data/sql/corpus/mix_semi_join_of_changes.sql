-- modes: streaming
SELECT team, SUM(pay) AS s FROM staff AS s WHERE EXISTS (SELECT 1 FROM teams AS t WHERE t.team = s.team AND t.budget > 15)
 AND id NOT IN (SELECT id FROM teams WHERE budget < 15) GROUP BY team;
