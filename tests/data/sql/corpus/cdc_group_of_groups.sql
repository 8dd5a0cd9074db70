-- quick in streaming
SELECT n, COUNT(*) AS shops FROM (SELECT shop, COUNT(*) AS n FROM goods GROUP BY shop) GROUP BY n;
