-- modes: streaming
SELECT * FROM FROM_CHANGELOG(input => TABLE ledger, op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']);
