-- quick in streaming
SELECT shop, MIN(price) AS low, MAX(price) AS high, AVG(qty) AS a FROM goods GROUP BY shop;
