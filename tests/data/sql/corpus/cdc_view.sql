CREATE VIEW dear AS SELECT id, shop, price FROM goods WHERE price > 2;
SELECT shop, COUNT(*) AS n FROM dear GROUP BY shop;
