-- quick in streaming
SELECT s.shop, t.m, t.n FROM shops AS s LEFT JOIN LATERAL (SELECT MAX(qty) AS m, COUNT(*) AS n FROM orders WHERE shop = s.shop) AS t ON TRUE;
