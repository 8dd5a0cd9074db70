-- modes: streaming
SELECT * FROM FROM_CHANGELOG(input => TABLE ledger, op_mapping => MAP['c', 'UPSERT']);
