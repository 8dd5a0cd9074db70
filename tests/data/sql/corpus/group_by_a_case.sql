SELECT CASE WHEN qty > 3 THEN 'many' ELSE 'few' END AS size, COUNT(*) AS n FROM orders GROUP BY CASE WHEN qty > 3 THEN 'many' ELSE 'few' END;
