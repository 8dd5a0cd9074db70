-- modes: streaming
CREATE VIEW v AS SELECT * FROM TO_CHANGELOG(input => TABLE visits);
SELECT window_start, COUNT(*) AS n FROM TUMBLE(TABLE v, DESCRIPTOR(ts), INTERVAL '10' SECOND) GROUP BY window_start, window_end;
