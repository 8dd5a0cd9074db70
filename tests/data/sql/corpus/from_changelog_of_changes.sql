-- modes: streaming
SELECT * FROM FROM_CHANGELOG(input => TABLE goods, op => DESCRIPTOR(name));
