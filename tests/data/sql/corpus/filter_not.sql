SELECT id FROM orders WHERE NOT (qty = 1) AND customer <> 'bob' AND shop IS DISTINCT FROM 's3';
