SELECT c.shop, (SELECT SUM(qty) FROM goods WHERE shop = c.shop) AS q FROM cities AS c;
