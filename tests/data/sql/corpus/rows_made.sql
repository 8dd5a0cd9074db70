SELECT id, ROW(id, shop) AS r, ARRAY[qty, 1] AS a, MAP[shop, qty] AS m FROM orders WHERE shop IS NOT NULL AND qty IS NOT NULL;
