-- modes: streaming
SELECT a.id, a.place.city, b.id AS other, b.place.zip FROM tags AS a LEFT JOIN (SELECT * FROM tags WHERE id <> 2) AS b ON a.place.city = b.place.city;
