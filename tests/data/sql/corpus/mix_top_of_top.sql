-- modes: streaming
SELECT team, id, pay FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY pay DESC NULLS LAST, id) AS r2 FROM (
 SELECT *, ROW_NUMBER() OVER (PARTITION BY team ORDER BY pay DESC, id) AS r FROM staff) WHERE r <= 2) WHERE r2 <= 3;
