-- quick in streaming
SELECT shop, id, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY id DESC) AS place FROM orders QUALIFY place <= 2;
