SELECT shop FROM goods INTERSECT SELECT shop FROM cities;
