SELECT shop, SUM(n) AS s FROM (VALUES ('a', 1), ('b', 2), ('a', 3)) AS t (shop, n) GROUP BY shop;
