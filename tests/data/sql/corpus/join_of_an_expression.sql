SELECT o.id, s.city FROM orders AS o JOIN shops AS s ON UPPER(o.shop) = UPPER(s.shop);
