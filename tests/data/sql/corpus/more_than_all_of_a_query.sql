SELECT id FROM goods WHERE qty > ALL (SELECT qty FROM stock WHERE id < 3);
