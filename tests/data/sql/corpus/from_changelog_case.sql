-- modes: streaming
SELECT id FROM FROM_CHANGELOG(input => TABLE ledger, op => DESCRIPTOR(OP), op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']);
