-- quick in streaming
SELECT a.id AS x, b.id AS y FROM orders AS a JOIN orders AS b ON a.customer = b.customer AND a.id < b.id;
