-- modes: streaming
-- open: id = 11
SELECT a.id, b.id AS other FROM odd AS a LEFT JOIN odd AS b ON a.k = b.k AND b.ts BETWEEN a.ts AND a.ts + INTERVAL '9' SECOND AND a.id <> b.id;
