SELECT id FROM goods AS g WHERE qty >= ANY (SELECT qty FROM stock AS s WHERE s.shop = g.shop);
