-- modes: streaming
SELECT JSON_VALUE(j, '$.team') AS t, COUNT(*) AS n, SUM(CAST(JSON_VALUE(j, '$.pay') AS DECIMAL(10, 2))) AS p FROM (
 SELECT JSON_OBJECT('team' VALUE team, 'pay' VALUE pay NULL ON NULL) AS j FROM staff) GROUP BY JSON_VALUE(j, '$.team');
