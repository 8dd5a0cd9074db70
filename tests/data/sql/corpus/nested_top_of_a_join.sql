-- modes: streaming
SELECT city, id, other FROM (
    SELECT a.place.city AS city, a.id AS id, b.id AS other, ROW_NUMBER() OVER (PARTITION BY b.place.city ORDER BY a.place.zip, a.id, b.id DESC) AS n
    FROM tags AS a JOIN tags AS b ON a.place.zip = b.place.zip WHERE a.place.city <> 'x'
) WHERE n = 1;
