SELECT COUNT(*) AS n, SUM(amount) AS s, AVG(price) AS p, MIN(qty) AS low, MAX(qty) AS high FROM orders;
