-- quick in batch
SELECT * FROM cities;
