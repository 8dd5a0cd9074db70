-- modes: streaming
SELECT team, name, COUNT(DISTINCT bonus) AS n, SUM(pay) AS p, GROUPING(team) AS gt, GROUPING(name) AS gn FROM staff GROUP BY ROLLUP (team, name) HAVING GROUPING(name) = 1 OR SUM(pay) > 20;
