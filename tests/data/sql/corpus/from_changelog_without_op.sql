-- modes: streaming
SELECT * FROM FROM_CHANGELOG(input => TABLE shops);
