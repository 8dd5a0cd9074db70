SELECT c.shop FROM cities AS c LEFT JOIN goods AS g ON c.shop = g.shop WHERE g.id IS NULL;
