SELECT s.shop, t.customer, t.n FROM shops AS s, LATERAL (SELECT customer, COUNT(*) AS n FROM orders WHERE shop = s.shop GROUP BY customer) AS t;
