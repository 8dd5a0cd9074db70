SELECT id, CEIL(amount) AS c, FLOOR(amount) AS f, FLOOR(-d) AS g, CEIL(amount * 1.5) AS h FROM orders JOIN points USING (id);
