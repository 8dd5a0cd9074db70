-- modes: streaming
SELECT id, EXISTS (SELECT 1 FROM stock AS s WHERE s.shop = g.shop) AS known FROM goods AS g;
