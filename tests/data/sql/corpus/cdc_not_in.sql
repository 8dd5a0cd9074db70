SELECT id FROM goods WHERE shop IS NOT NULL AND shop NOT IN (SELECT shop FROM cities);
