SELECT g.id, c.shop FROM goods AS g JOIN cities AS c ON g.qty < c.people;
