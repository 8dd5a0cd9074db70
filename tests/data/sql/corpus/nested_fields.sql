-- quick in streaming
SELECT id, t.place.city, place.zip + 1 AS z, tags[1] AS first_, attrs['k'] AS k, CARDINALITY(tags) AS n, CARDINALITY(attrs) AS m FROM tags AS t;
