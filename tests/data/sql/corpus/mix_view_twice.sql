-- modes: streaming
WITH g AS (SELECT team, COUNT(*) AS n, SUM(pay) AS p FROM staff GROUP BY team)
SELECT a.team, b.team AS other, a.n + b.n AS n FROM g AS a JOIN g AS b ON a.n = b.n AND a.p < b.p;
