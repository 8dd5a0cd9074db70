-- modes: streaming
CREATE VIEW entries AS SELECT NULLIF(op, 'd') AS op, id, qty FROM ledger;
SELECT * FROM FROM_CHANGELOG(input => TABLE entries, op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']);
