-- modes: streaming
SELECT team, MIN(since) AS a, MAX(since) AS b, MIN(name) AS c, MAX(pay > 10) AS d, MIN(CAST(since AS DATE)) AS e, MAX(bonus) AS f, SUM(CAST(pay AS INT)) AS g, COUNT(DISTINCT since) AS h
FROM staff GROUP BY team;
