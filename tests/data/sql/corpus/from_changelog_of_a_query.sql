-- modes: streaming
SELECT * FROM FROM_CHANGELOG(input => (SELECT op AS kind, id, qty FROM ledger WHERE id > 1), op => DESCRIPTOR(kind), op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']);
