-- modes: streaming
SELECT * FROM TO_CHANGELOG(input => TABLE goods PARTITION BY id);
