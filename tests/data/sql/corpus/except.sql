-- quick in batch
SELECT shop FROM orders EXCEPT SELECT shop FROM shops;
