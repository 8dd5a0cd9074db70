WITH big AS (SELECT shop FROM orders WHERE amount > 10) SELECT shop FROM big INTERSECT SELECT shop FROM shops;
