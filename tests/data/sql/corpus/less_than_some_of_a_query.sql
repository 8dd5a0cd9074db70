SELECT id FROM goods WHERE qty < SOME (SELECT qty FROM stock);
