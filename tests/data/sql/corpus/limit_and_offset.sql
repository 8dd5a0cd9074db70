SELECT shop, id FROM orders WHERE qty > 1 ORDER BY qty DESC, id LIMIT 3 OFFSET 2;
