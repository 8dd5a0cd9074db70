-- modes: streaming
CREATE VIEW entries AS SELECT * FROM ledger WHERE op NOT IN ('ub', 'ua') AND id <> 2;
SELECT * FROM FROM_CHANGELOG(input => TABLE entries, op_mapping => MAP['c, r', 'INSERT', 'd', 'DELETE']);
