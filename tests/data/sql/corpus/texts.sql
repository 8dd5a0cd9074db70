-- quick in batch
SELECT id, customer || '@' || shop AS mail, CHAR_LENGTH(customer) AS n, SUBSTRING(customer, 2) AS tail,
  LPAD(shop, 4, '*') AS padded, REPLACE(customer, 'n', 'N') AS replaced, POSITION('b' IN customer) AS place FROM orders;
