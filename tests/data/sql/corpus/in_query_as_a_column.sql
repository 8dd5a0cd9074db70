-- modes: streaming
SELECT id, shop IN (SELECT shop FROM stock) AS known FROM goods;
