-- modes: batch
CREATE VIEW timed AS SELECT *, PROCTIME() AS p FROM orders;
SELECT shop, COUNT(*) AS n FROM timed GROUP BY shop, TUMBLE(p, INTERVAL '10' DAY);
