CREATE VIEW large AS SELECT id, shop, amount FROM orders WHERE amount > 10;
SELECT shop, COUNT(*) AS n FROM large GROUP BY shop;
