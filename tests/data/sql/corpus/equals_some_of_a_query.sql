-- modes: streaming
SELECT id FROM goods WHERE shop = SOME (SELECT shop FROM stock);
