-- modes: streaming
SELECT a.team, a.bonus, COUNT(*) AS n FROM (SELECT DISTINCT team, bonus FROM staff) AS a
LEFT JOIN (SELECT DISTINCT team FROM teams) AS b ON a.team = b.team GROUP BY a.team, a.bonus, b.team;
