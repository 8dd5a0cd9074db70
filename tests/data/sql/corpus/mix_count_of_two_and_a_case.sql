-- modes: streaming
SELECT CASE WHEN team IS NULL THEN 'none' WHEN pay > 15 THEN team ELSE UPPER(name) END AS g, COUNT(*) AS n, COUNT(DISTINCT CASE WHEN bonus > 1 THEN id END) AS c,
 SUM(CASE WHEN score > 1 THEN pay ELSE -pay END) AS s FROM staff GROUP BY CASE WHEN team IS NULL THEN 'none' WHEN pay > 15 THEN team ELSE UPPER(name) END;
