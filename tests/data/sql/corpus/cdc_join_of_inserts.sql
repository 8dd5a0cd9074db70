SELECT o.id, o.customer, g.name FROM orders AS o JOIN goods AS g ON o.qty = g.qty AND o.shop = g.shop;
