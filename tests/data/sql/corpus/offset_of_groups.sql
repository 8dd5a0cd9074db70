-- kinder in streaming: Flink takes back a row that it never gave
SELECT shop, s FROM (SELECT shop, SUM(qty) AS s FROM orders WHERE shop IS NOT NULL GROUP BY shop) ORDER BY s DESC LIMIT 1 OFFSET 1;
