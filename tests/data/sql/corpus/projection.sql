SELECT id, UPPER(shop) AS shop, amount * qty AS total, price * 2 AS twice FROM orders WHERE qty > 1;
