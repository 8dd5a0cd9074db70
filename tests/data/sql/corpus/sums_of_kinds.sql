SELECT SUM(qty) AS a, SUM(id) AS b, SUM(price) AS c, SUM(amount) AS d, AVG(price) AS e, AVG(id) AS f FROM orders;
