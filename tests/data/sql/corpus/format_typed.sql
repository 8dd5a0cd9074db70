-- quick in streaming
SELECT * FROM typed;
