SELECT id, MAP_KEYS(attrs) AS a, attrs['k'] AS b, CARDINALITY(attrs) AS c FROM tags WHERE id < 3;
