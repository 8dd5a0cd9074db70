SELECT g.id, c.city, s.n FROM goods AS g JOIN cities AS c ON g.shop = c.shop JOIN shops AS s ON c.shop = s.shop;
