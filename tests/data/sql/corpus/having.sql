SELECT customer, SUM(qty) AS q FROM orders GROUP BY customer HAVING COUNT(*) > 1;
