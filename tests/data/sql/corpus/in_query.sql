SELECT id FROM orders WHERE shop IN (SELECT shop FROM shops WHERE n > 1);
