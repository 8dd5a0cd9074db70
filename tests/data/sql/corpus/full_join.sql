-- quick in streaming
SELECT o.id, s.city FROM orders AS o FULL OUTER JOIN shops AS s ON o.shop = s.shop;
