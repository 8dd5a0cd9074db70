SELECT id FROM orders WHERE shop NOT IN (SELECT shop FROM shops);
