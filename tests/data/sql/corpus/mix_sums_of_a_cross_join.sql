-- modes: streaming
SELECT s.team, SUM(s.pay * k.v) AS total, COUNT(*) AS c FROM staff AS s CROSS JOIN keyed AS k WHERE s.pay > k.v GROUP BY s.team;
