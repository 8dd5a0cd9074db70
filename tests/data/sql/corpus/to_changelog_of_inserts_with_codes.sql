-- modes: streaming
SELECT * FROM TO_CHANGELOG(input => TABLE shops, op_mapping => MAP['INSERT', 'I', 'DELETE', 'D']);
