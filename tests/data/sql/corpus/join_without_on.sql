SELECT o.id FROM orders AS o JOIN shops AS s;
