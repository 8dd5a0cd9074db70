CREATE VIEW versions AS SELECT shop, rate, ts FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY ts DESC) AS place FROM rates) WHERE place = 1;
CREATE VIEW high AS SELECT shop, rate * 2 AS twice, ts FROM versions WHERE rate > 1;
SELECT o.id, v.twice FROM orders AS o LEFT JOIN high FOR SYSTEM_TIME AS OF o.ts AS v ON o.shop = v.shop;
