CREATE VIEW one AS SELECT id, shop, qty FROM orders WHERE qty IS NOT NULL;
CREATE VIEW two AS SELECT shop, SUM(qty) AS q FROM one GROUP BY shop;
SELECT * FROM two WHERE q > 10;
