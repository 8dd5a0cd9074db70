-- modes: streaming
-- open: id >= 11
CREATE VIEW latest AS SELECT k, v, ts FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY ts DESC) AS rn FROM changes) WHERE rn = 1;
SELECT o.id, o.k, l.v FROM odd AS o LEFT JOIN latest FOR SYSTEM_TIME AS OF o.ts AS l ON o.k = l.k;
