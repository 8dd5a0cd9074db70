-- modes: streaming
SELECT * FROM TO_CHANGELOG(input => TABLE goods, op => DESCRIPTOR(name));
