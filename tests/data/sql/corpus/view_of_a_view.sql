CREATE VIEW firsts AS SELECT id, shop, qty FROM orders WHERE qty IS NOT NULL;
CREATE VIEW sums AS SELECT shop, SUM(qty) AS q FROM firsts GROUP BY shop;
SELECT * FROM sums WHERE q > 10;
