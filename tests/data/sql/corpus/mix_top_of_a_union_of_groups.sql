-- modes: streaming
SELECT who, n, rn FROM (SELECT who, n, ROW_NUMBER() OVER (ORDER BY n DESC, who) AS rn FROM (
 SELECT team AS who, COUNT(*) AS n FROM staff GROUP BY team UNION ALL SELECT shop, COUNT(*) FROM orders GROUP BY shop)) WHERE rn <= 3;
