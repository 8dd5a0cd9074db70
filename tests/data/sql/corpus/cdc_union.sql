-- quick in streaming
SELECT shop FROM goods UNION SELECT shop FROM cities;
