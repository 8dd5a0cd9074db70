SELECT id, items[1].sku AS sku FROM tags;
