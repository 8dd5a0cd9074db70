-- modes: streaming
SELECT id, (SELECT city FROM shops) AS c FROM orders WHERE id < 4;
