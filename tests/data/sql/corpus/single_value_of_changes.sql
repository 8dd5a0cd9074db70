-- quick in streaming
SELECT id, price - (SELECT MIN(price) FROM goods) AS d FROM goods;
