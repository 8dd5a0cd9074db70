-- modes: streaming
SELECT team FROM staff INTERSECT ALL SELECT team FROM (SELECT team FROM teams UNION ALL SELECT team FROM staff WHERE pay > 20);
