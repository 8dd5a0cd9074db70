SELECT shop, name, COUNT(*) AS n FROM goods GROUP BY GROUPING SETS ((shop), (name), ());
