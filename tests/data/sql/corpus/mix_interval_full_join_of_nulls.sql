-- modes: streaming
SELECT a.id, b.id AS other FROM odd AS a FULL JOIN odd AS b
ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '4' SECOND AND a.ts + INTERVAL '4' SECOND AND a.n > 0 AND b.id > 2;
