-- open: id >= 15
SELECT id, COUNT(*) OVER (PARTITION BY customer ORDER BY ts) AS n, AVG(qty) OVER (PARTITION BY customer ORDER BY ts) AS a FROM orders;
