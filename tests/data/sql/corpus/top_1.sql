-- differs in streaming: Flink gives +U without -U here, so its old rows stay
SELECT shop, id, amount FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY amount DESC, id) AS n FROM orders) WHERE n = 1;
