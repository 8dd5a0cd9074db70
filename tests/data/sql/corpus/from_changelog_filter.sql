-- modes: streaming
SELECT id, qty FROM FROM_CHANGELOG(input => TABLE ledger, op => DESCRIPTOR(op), op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']) WHERE shop = 's1';
