-- quick in streaming
-- open: id >= 15
SELECT o.id, o.amount * p.rate AS worth FROM orders AS o LEFT JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.shop = p.shop;
