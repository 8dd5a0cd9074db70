SELECT s.shop, t.m, t.n FROM shops AS s, LATERAL (SELECT MAX(qty) AS m, COUNT(*) AS n FROM orders WHERE shop = s.shop) AS t;
