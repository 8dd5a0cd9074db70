SELECT id, name FROM goods WHERE qty > 2;
