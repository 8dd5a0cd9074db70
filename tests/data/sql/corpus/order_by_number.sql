-- ordered
SELECT id, amount FROM orders WHERE amount IS NOT NULL ORDER BY 2, 1;
