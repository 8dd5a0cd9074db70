-- modes: streaming
SELECT who, COUNT(*) AS n, COUNT(DISTINCT amount) AS d, MIN(amount) AS l FROM (
 SELECT name AS who, pay AS amount FROM staff UNION ALL SELECT customer, amount FROM orders UNION ALL SELECT CAST(NULL AS STRING), budget FROM teams)
GROUP BY who HAVING COUNT(*) > 1;
