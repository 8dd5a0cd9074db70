-- modes: streaming
CREATE VIEW entries AS SELECT * FROM TO_CHANGELOG(input => TABLE goods);
SELECT * FROM FROM_CHANGELOG(input => TABLE entries);
