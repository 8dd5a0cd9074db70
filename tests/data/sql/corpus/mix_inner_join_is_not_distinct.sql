SELECT a.id, b.id AS other FROM odd AS a JOIN odd AS b ON a.k IS NOT DISTINCT FROM b.k AND a.n IS DISTINCT FROM b.n;
