-- ordered
SELECT id AS x, qty * 2 AS twice FROM orders WHERE qty IS NOT NULL ORDER BY twice DESC, x;
