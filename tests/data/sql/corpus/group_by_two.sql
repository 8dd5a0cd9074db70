SELECT shop, customer, COUNT(*) AS n, MAX(amount) AS m FROM orders GROUP BY shop, customer;
