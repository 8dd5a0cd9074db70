-- modes: streaming
SELECT COALESCE(s.team, t.team, '-') AS team, COUNT(*) AS c, COUNT(s.id) AS ids, SUM(s.pay + t.budget) AS total
FROM staff AS s FULL JOIN teams AS t ON s.team = t.team GROUP BY COALESCE(s.team, t.team, '-');
