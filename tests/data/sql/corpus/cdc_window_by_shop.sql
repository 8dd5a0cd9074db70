-- quick in streaming
SELECT window_start, window_end, shop, COUNT(*) AS n, COUNT(price) AS p, SUM(qty) AS s, AVG(qty) AS a, AVG(price) AS ap, SUM(price) AS sp, MIN(qty) AS l, MAX(price) AS m, COUNT(DISTINCT qty) AS d
FROM TABLE(TUMBLE(TABLE visits, DESCRIPTOR(ts), INTERVAL '10' MINUTE)) GROUP BY window_start, window_end, shop;
