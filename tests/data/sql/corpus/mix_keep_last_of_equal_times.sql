-- modes: streaming
SELECT id, k, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY ts ORDER BY ts DESC) AS rn FROM odd) WHERE rn = 1;
