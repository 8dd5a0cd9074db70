SELECT s.city, o.customer FROM shops AS s JOIN (SELECT DISTINCT shop, customer FROM orders) AS o ON s.shop = o.shop;
