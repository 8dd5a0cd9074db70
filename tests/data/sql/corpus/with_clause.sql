WITH big AS (SELECT * FROM orders WHERE amount > 10), counted AS (SELECT shop, COUNT(*) AS n FROM big GROUP BY shop)
SELECT * FROM counted WHERE n > 1;
