-- modes: streaming
SELECT a.id, b.id AS other FROM odd AS a FULL JOIN odd AS b
ON a.k = b.k AND b.ts >= a.ts - INTERVAL '4' SECOND AND b.ts <= a.ts + INTERVAL '8' SECOND AND b.ts < a.ts + INTERVAL '99' DAY
AND NOT (a.n <= 0 OR b.n <= 0) AND (b.v > 0) = TRUE AND a.ts < TIMESTAMP '2026-01-01 00:00:05' AND b.ts <> a.ts;
