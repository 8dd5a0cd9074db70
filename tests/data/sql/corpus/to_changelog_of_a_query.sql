-- modes: streaming
SELECT * FROM TO_CHANGELOG(input => (SELECT id, UPPER(name) AS name FROM goods));
