SELECT shop, city FROM cities WHERE shop NOT IN (SELECT shop FROM goods);
