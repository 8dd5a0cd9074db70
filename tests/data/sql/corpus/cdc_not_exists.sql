SELECT id FROM goods AS g WHERE NOT EXISTS (SELECT 1 FROM stock AS s WHERE s.shop = g.shop);
