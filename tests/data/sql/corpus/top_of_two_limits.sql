SELECT shop, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC, id) AS n FROM orders) WHERE n < 4 AND n <= 2;
