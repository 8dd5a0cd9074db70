SELECT id, (SELECT city FROM shops WHERE shop = 'none') AS c FROM orders WHERE id < 4;
