SELECT id, qty FROM goods ORDER BY qty DESC, id LIMIT 3;
