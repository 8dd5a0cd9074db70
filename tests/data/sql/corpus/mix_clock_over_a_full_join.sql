-- modes: streaming
WITH a AS (SELECT team, COUNT(*) AS n FROM staff GROUP BY team), b AS (SELECT team, COUNT(*) AS n FROM teams WHERE id <> 5 GROUP BY team)
SELECT a.team, a.n, b.team AS other, b.n AS m FROM a FULL JOIN b ON a.team = b.team WHERE NOW() > TO_TIMESTAMP_LTZ(0, 3);
