-- quick in streaming
SELECT id, sku, n FROM tags CROSS JOIN UNNEST(items) AS t (sku, n);
