SELECT DISTINCT s.city FROM orders AS o JOIN shops AS s ON o.shop = s.shop;
