SELECT CASE WHEN qty > 4 THEN 'many' ELSE 'few' END AS k, COUNT(*) AS n FROM goods GROUP BY CASE WHEN qty > 4 THEN 'many' ELSE 'few' END;
