-- quick in batch
SELECT shop FROM orders INTERSECT ALL SELECT shop FROM rates;
