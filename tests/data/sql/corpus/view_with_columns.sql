CREATE VIEW v (a, b) AS SELECT id, amount FROM orders;
SELECT a FROM v WHERE b < 5;
