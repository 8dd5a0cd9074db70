SELECT shop FROM orders EXCEPT SELECT shop FROM shops;
