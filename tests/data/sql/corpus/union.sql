SELECT shop FROM orders UNION SELECT shop FROM shops;
