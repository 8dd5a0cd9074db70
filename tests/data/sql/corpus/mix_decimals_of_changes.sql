-- modes: streaming
SELECT team, SUM(pay / 3) AS a, AVG(pay * bonus) AS b, SUM(ROUND(bonus, 1)) AS c, AVG(DISTINCT pay) AS d, SUM(DISTINCT bonus) AS e, MAX(pay - bonus) AS f, SUM(pay) / COUNT(bonus) AS g, MIN(pay % 7) AS h FROM staff WHERE pay > 0 GROUP BY team HAVING COUNT(bonus) > 0;
