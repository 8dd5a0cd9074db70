-- differs: ALL of a query without rows is true, and Flink keeps no row in a stream
SELECT id FROM goods WHERE qty = ALL (SELECT qty FROM stock WHERE id = 1);
