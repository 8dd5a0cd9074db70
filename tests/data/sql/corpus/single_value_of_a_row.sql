SELECT id, (SELECT city FROM shops WHERE shop = 's1') AS c FROM orders WHERE id < 4;
