-- quick in streaming
SELECT o.id, p.paid, r.rate FROM orders AS o JOIN payments AS p ON o.id = p.order_id JOIN rates AS r ON o.shop = r.shop;
