-- modes: streaming
SELECT id FROM goods AS g WHERE qty > 5 OR NOT EXISTS (SELECT 1 FROM stock AS s WHERE s.shop = g.shop);
