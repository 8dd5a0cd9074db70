-- modes: streaming
-- open: id = 11 or other = 11
SELECT a.id, b.id AS other FROM odd AS a FULL JOIN odd AS b
ON a.k = b.k AND b.ts BETWEEN a.ts - INTERVAL '4' SECOND AND a.ts + INTERVAL '4' SECOND
AND NOT (CHAR_LENGTH(a.k || b.k) <= 2);
