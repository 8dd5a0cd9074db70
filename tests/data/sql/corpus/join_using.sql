-- quick in batch
SELECT id, shop, city FROM orders JOIN shops USING (shop);
