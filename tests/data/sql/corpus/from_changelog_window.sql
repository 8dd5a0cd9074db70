-- modes: streaming
CREATE VIEW v AS SELECT * FROM FROM_CHANGELOG(input => TABLE ledger, op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']);
SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end;
