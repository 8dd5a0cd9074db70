-- open: id >= 6
CREATE VIEW versions AS SELECT shop, rate, ts FROM rates QUALIFY ROW_NUMBER() OVER (PARTITION BY shop ORDER BY ts DESC) = 1;
SELECT o.id, v.rate FROM orders AS o JOIN versions FOR SYSTEM_TIME AS OF o.ts AS v ON o.shop = v.shop;
