SELECT o.id, p.order_id FROM orders AS o JOIN payments AS p ON o.amount > p.paid AND o.id > 10;
