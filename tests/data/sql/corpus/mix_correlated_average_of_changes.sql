-- modes: streaming
SELECT a.id, a.team, (SELECT COUNT(*) FROM staff AS c WHERE c.team = a.team AND c.pay > 10) AS n FROM staff AS a
WHERE a.pay >= (SELECT AVG(b.pay) FROM staff AS b WHERE b.team = a.team);
