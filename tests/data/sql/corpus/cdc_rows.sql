-- quick in batch
SELECT * FROM goods;
