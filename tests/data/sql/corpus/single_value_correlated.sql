-- quick in streaming
SELECT s.shop, (SELECT MAX(amount) FROM orders WHERE shop = s.shop) AS m, (SELECT COUNT(*) FROM orders WHERE shop = s.shop) AS n FROM shops AS s;
