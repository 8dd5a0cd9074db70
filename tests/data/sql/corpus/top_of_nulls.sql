SELECT shop, id, n FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY customer ORDER BY amount DESC NULLS FIRST, id) AS n FROM orders) WHERE n <= 2;
