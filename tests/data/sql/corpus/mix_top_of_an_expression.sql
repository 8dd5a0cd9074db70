-- modes: streaming
SELECT letter, total, rn FROM (SELECT letter, total, ROW_NUMBER() OVER (PARTITION BY letter ORDER BY total DESC, customer) AS rn FROM (
 SELECT SUBSTRING(shop, 1, 1) AS letter, customer, SUM(amount) AS total FROM orders GROUP BY SUBSTRING(shop, 1, 1), customer)) WHERE rn <= 2;
