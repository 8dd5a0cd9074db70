SELECT shop FROM shops WHERE shop NOT IN (SELECT shop FROM orders WHERE id IN (1, 7));
