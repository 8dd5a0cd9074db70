SELECT shop FROM cities UNION SELECT shop FROM goods;
