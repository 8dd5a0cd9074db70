-- quick in streaming
SELECT id, shop FROM orders WHERE shop NOT IN (SELECT shop FROM shops WHERE n > 100) AND id > 3;
