SELECT a.id, b.id AS other FROM odd AS a JOIN odd AS b ON CAST(a.k AS CHAR(2)) = b.k;
