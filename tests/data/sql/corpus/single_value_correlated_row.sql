SELECT id, (SELECT city FROM shops WHERE shop = o.shop) AS c FROM orders AS o;
