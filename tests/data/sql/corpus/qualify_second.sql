SELECT shop, id, qty FROM orders QUALIFY ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC, id) = 2;
