-- modes: streaming
-- quick
SELECT * FROM TO_CHANGELOG(input => TABLE goods);
