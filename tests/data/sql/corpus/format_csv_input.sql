SELECT shop, city, n FROM shops WHERE n < 4;
