-- modes: streaming
SELECT team, name, COUNT(DISTINCT bonus) FILTER (WHERE pay > 10) AS a, SUM(DISTINCT pay) FILTER (WHERE score >= 0) AS b,
  COUNT(*) FILTER (WHERE bonus IS NULL) AS c, AVG(bonus) AS d, MAX(name) FILTER (WHERE pay < 30) AS e, GROUPING(team) AS g
FROM staff GROUP BY GROUPING SETS ((team), (name, team), ());
