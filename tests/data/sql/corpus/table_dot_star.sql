SELECT s.*, o.id FROM orders AS o JOIN shops AS s ON o.shop = s.shop WHERE o.id < 3;
