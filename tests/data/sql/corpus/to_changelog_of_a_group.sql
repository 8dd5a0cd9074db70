-- modes: streaming
CREATE VIEW sums AS SELECT shop, COUNT(*) AS n, SUM(qty) AS q FROM goods GROUP BY shop;
CREATE VIEW told AS SELECT * FROM TO_CHANGELOG(input => TABLE sums);
SELECT * FROM FROM_CHANGELOG(input => TABLE told);
