-- modes: streaming
SELECT * FROM (SELECT id, shop, qty, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC, id) AS r
FROM FROM_CHANGELOG(input => TABLE ledger, op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE'])) WHERE r <= 1;
