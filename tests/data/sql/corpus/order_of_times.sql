-- open: id >= 15
SELECT id, ts FROM orders ORDER BY ts;
