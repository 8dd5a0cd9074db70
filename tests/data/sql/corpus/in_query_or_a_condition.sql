-- modes: streaming
SELECT id FROM goods WHERE qty > 5 OR shop IN (SELECT shop FROM stock);
