-- quick in streaming
-- open: id >= 15
SELECT o.id, p.rate FROM orders AS o JOIN prices FOR SYSTEM_TIME AS OF o.ts AS p ON o.shop = p.shop;
