SELECT g.id, g.name, c.city FROM goods AS g JOIN cities AS c ON g.shop = c.shop;
