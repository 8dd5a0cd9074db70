SELECT id FROM orders WHERE shop IS NOT NULL AND amount >= 10.00 OR customer LIKE 'a%';
