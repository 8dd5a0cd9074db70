-- modes: streaming
SELECT id FROM goods WHERE shop <> ALL (SELECT shop FROM stock);
