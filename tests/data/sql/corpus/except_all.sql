-- quick in batch
SELECT shop FROM orders EXCEPT ALL SELECT shop FROM shops;
