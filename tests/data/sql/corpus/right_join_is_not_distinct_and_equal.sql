SELECT a.id, b.id AS other FROM odd AS a RIGHT JOIN odd AS b ON a.k IS NOT DISTINCT FROM b.k AND a.n = b.n;
