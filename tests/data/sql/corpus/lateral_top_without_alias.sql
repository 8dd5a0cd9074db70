SELECT s.shop, t.id FROM shops AS s, LATERAL (SELECT id FROM orders WHERE shop = s.shop ORDER BY id DESC LIMIT 2) AS t;
