SELECT g.id, c.city FROM goods AS g RIGHT JOIN cities AS c ON g.shop = c.shop;
