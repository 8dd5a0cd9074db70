SELECT g.id, c.city FROM goods AS g LEFT JOIN cities AS c ON g.shop = c.shop AND c.people > 4 AND g.qty > 3;
