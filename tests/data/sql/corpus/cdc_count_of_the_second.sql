-- modes: streaming
SELECT COUNT(*) AS n, SUM(pay) AS total FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY team ORDER BY pay DESC, id) AS rn FROM staff) WHERE rn = 2;
