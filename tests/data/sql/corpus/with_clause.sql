WITH large AS (SELECT * FROM orders WHERE amount > 10), counted AS (SELECT shop, COUNT(*) AS n FROM large GROUP BY shop)
SELECT * FROM counted WHERE n > 1;
