SELECT shop, id FROM orders WHERE qty > 1 ORDER BY MOD(id, 4) DESC, 2 LIMIT 4;
