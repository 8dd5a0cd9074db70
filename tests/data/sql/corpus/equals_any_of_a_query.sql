-- modes: streaming
SELECT id FROM goods WHERE shop = ANY (SELECT shop FROM stock);
