-- modes: streaming
SELECT id, k, before FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts, id DESC) AS rn, k AS before FROM odd) WHERE rn = 1;
