SELECT g.id, c.city FROM goods AS g, cities AS c WHERE g.shop = c.shop AND g.qty > 3;
