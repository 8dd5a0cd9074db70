-- differs: two rows of s1 have the largest amount, and any of them may stay
SELECT shop, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY amount DESC) AS n FROM orders) WHERE n = 1;
