-- modes: streaming
CREATE VIEW entries AS SELECT * FROM ledger WHERE op <> 'ub';
SELECT * FROM FROM_CHANGELOG(input => TABLE entries, op_mapping => MAP['c, r', 'INSERT', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']);
