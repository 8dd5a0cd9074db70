-- modes: streaming
SELECT team, id, pay, rn FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY team ORDER BY pay DESC, id) AS rn FROM staff) WHERE rn BETWEEN 2 AND 3;
