-- open: order_id = 3
CREATE VIEW versions AS SELECT shop, customer, ts FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY ts DESC) AS place FROM orders) WHERE place = 1;
SELECT p.order_id, p.shop, v.customer FROM (SELECT order_id, `at`, CASE WHEN order_id < 5 THEN 's1' ELSE 's3' END AS shop FROM payments) AS p
JOIN versions FOR SYSTEM_TIME AS OF p.`at` AS v ON p.shop = v.shop;
