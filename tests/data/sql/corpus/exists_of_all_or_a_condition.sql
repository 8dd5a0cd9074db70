-- modes: streaming
SELECT id FROM goods WHERE qty > 5 OR EXISTS (SELECT 1 FROM stock WHERE qty > 100);
