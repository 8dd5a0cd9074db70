SELECT c.shop, c.people, g.id FROM cities AS c LEFT JOIN goods AS g ON c.shop = g.shop;
