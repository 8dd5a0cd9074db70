-- modes: streaming
SELECT city, zip, id, n FROM (
    SELECT t.place.city AS city, t.place.zip AS zip, id, ROW_NUMBER() OVER (PARTITION BY t.place.city ORDER BY t.place.zip DESC, id) AS n FROM tags AS t
) WHERE n <= 2;
