-- modes: streaming
SELECT id, team FROM staff WHERE (team, bonus) IN (SELECT team, bonus FROM staff WHERE pay > 15) AND team NOT IN (SELECT team FROM teams WHERE team IS NOT NULL AND budget < 15);
