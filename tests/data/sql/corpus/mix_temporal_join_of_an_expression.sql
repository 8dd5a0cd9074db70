-- modes: streaming
-- open: id >= 15
SELECT o.id, p.rate FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p
ON LOWER(o.shop) = p.shop WHERE o.qty > 1 OR p.rate IS NULL;
