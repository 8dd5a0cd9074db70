-- modes: streaming
SELECT * FROM TO_CHANGELOG(TABLE goods, DESCRIPTOR(change), MAP['DELETE', 'x', 'INSERT', 'x']) AS t(a, b, c, d, e, f);
