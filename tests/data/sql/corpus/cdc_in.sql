SELECT id FROM goods WHERE shop IN (SELECT shop FROM cities);
