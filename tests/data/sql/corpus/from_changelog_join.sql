-- modes: streaming
SELECT l.id, l.qty, c.city FROM FROM_CHANGELOG(input => TABLE ledger, op_mapping => MAP['c, r', 'INSERT', 'ub', 'UPDATE_BEFORE', 'ua', 'UPDATE_AFTER', 'd', 'DELETE']) AS l
JOIN cities AS c ON l.shop = c.shop;
