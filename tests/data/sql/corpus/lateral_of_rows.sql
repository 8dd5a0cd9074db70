SELECT s.shop, t.id FROM shops AS s, LATERAL (SELECT id FROM orders WHERE shop = s.shop AND qty > 3) AS t;
