WITH dear AS (SELECT * FROM goods WHERE price > 2), counted AS (SELECT shop, COUNT(*) AS n FROM dear GROUP BY shop)
SELECT * FROM counted;
