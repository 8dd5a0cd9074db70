-- quick in streaming
SELECT DISTINCT shop FROM goods;
