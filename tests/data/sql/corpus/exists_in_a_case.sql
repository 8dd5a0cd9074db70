-- modes: streaming
SELECT id FROM goods AS g WHERE CASE WHEN qty > 5 THEN TRUE ELSE EXISTS (SELECT 1 FROM stock AS s WHERE s.shop = g.shop) END;
