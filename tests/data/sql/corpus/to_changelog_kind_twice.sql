-- modes: streaming
SELECT * FROM TO_CHANGELOG(input => TABLE goods, op_mapping => MAP['INSERT', 'x', 'INSERT, DELETE', 'y']);
