-- modes: streaming
SELECT team, total, n, most, place FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY total DESC, team) AS place FROM (
  SELECT s.team, SUM(s.pay) AS total, COUNT(t.budget) AS n, MAX(t.budget) AS most
  FROM staff AS s LEFT JOIN teams AS t ON s.team = t.team GROUP BY s.team)) WHERE place <= 2;
