SELECT a.id AS x, b.id AS y FROM goods AS a JOIN goods AS b ON a.shop = b.shop AND a.id < b.id;
