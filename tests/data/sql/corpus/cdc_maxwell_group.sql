-- quick in streaming
SELECT shop, SUM(qty) AS q FROM stock GROUP BY shop;
