-- modes: streaming
SELECT team, name, COUNT(*) AS c, SUM(pay) AS s, GROUPING(team) AS gt, GROUPING(name) AS gn FROM staff
GROUP BY GROUPING SETS ((team, name), (team), ());
