-- modes: streaming
SELECT * FROM TO_CHANGELOG(input => TABLE cities);
