CREATE VIEW dear AS SELECT id, amount FROM orders WHERE id > 2 ORDER BY amount DESC;
SELECT id FROM dear WHERE amount > 5;
