-- quick in streaming
SELECT c.shop, t.m, t.n FROM cities AS c, LATERAL (SELECT MAX(price) AS m, COUNT(*) AS n FROM goods WHERE shop = c.shop) AS t;
