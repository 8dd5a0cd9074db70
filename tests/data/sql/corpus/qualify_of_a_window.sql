-- open: id >= 15
SELECT id, shop FROM orders QUALIFY COUNT(*) OVER (PARTITION BY shop ORDER BY ts) > 2;
