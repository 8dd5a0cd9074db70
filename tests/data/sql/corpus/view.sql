CREATE VIEW big AS SELECT id, shop, amount FROM orders WHERE amount > 10;
SELECT shop, COUNT(*) AS n FROM big GROUP BY shop;
