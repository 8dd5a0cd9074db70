-- modes: streaming
SELECT id FROM goods WHERE shop IN (SELECT shop FROM stock) OR id IN (SELECT id FROM clients);
