SELECT g.id, c.shop FROM goods AS g CROSS JOIN cities AS c WHERE c.people > 4;
