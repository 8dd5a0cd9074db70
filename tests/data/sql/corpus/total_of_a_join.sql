SELECT COUNT(*) AS n, SUM(g.qty * c.people) AS s FROM goods AS g JOIN cities AS c ON g.shop = c.shop;
