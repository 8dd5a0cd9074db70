-- quick in streaming
-- modes: streaming
SELECT COUNT(*) AS n, COUNT(name) AS c, SUM(qty) AS q, AVG(price) AS a, MIN(name) AS m FROM goods WHERE id = 4;
