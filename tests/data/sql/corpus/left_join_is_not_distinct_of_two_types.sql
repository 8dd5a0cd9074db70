-- kinder: a join takes two types of integers as keys
SELECT a.id, b.id AS other FROM odd AS a LEFT JOIN orders AS b ON a.n IS NOT DISTINCT FROM b.qty AND a.id IS NOT DISTINCT FROM b.id;
