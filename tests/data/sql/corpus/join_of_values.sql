SELECT o.id, v.word FROM orders AS o JOIN (VALUES ('s1', 'one'), ('s2', 'two')) AS v (shop, word) ON o.shop = v.shop;
