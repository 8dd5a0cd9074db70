SELECT id, MD5(customer) AS a, SHA256(shop) AS b, SHA1(shop) AS c, TO_BASE64(customer) AS d, HEX(id) AS e FROM orders;
