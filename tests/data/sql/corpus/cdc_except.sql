SELECT shop FROM goods EXCEPT SELECT shop FROM cities;
