SELECT /*+ BROADCAST(s) */ o.id, s.city FROM orders AS o JOIN shops AS s ON o.shop = s.shop;
