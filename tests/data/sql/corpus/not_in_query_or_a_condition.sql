SELECT id FROM goods WHERE qty > 5 OR shop NOT IN (SELECT shop FROM stock);
