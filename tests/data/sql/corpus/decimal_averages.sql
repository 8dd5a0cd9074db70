-- quick in batch
SELECT AVG(d) AS a, SUM(d) AS s, AVG(d * 10) AS b, SUM(d) / COUNT(*) AS c FROM points;
