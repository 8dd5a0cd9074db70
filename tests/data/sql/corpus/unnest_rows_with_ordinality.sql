SELECT id, sku, n, spot FROM tags CROSS JOIN UNNEST(items) WITH ORDINALITY AS t (sku, n, spot);
