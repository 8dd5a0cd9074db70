-- quick in streaming
SELECT shop, city FROM cities WHERE shop NOT IN (SELECT shop FROM goods WHERE qty > 3) AND people > 1;
