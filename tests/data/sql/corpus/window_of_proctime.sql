-- modes: batch
CREATE VIEW timed AS SELECT *, PROCTIME() AS p FROM orders;
SELECT shop, COUNT(*) AS n FROM TUMBLE(TABLE timed, DESCRIPTOR(p), INTERVAL '10' DAY) GROUP BY shop, window_start, window_end;
