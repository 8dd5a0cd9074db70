SELECT g.id, c.city FROM goods AS g JOIN cities AS c ON g.shop = c.shop AND g.qty > c.people;
