SELECT shop FROM orders INTERSECT SELECT shop FROM shops;
