SELECT shop FROM orders UNION ALL SELECT shop FROM shops;
