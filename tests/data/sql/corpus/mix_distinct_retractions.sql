-- modes: streaming
SELECT team, COUNT(DISTINCT bonus) AS b, SUM(DISTINCT pay) AS s, AVG(DISTINCT pay) AS a, COUNT(DISTINCT score) AS d,
  COUNT(DISTINCT name) FILTER (WHERE pay > 10) AS f FROM staff GROUP BY team;
