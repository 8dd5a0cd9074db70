SELECT id, JSON_OBJECT(KEY 'id' VALUE id, KEY 'shop' VALUE shop, KEY 'amount' VALUE amount NULL ON NULL) AS a FROM orders;
