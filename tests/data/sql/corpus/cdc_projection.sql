SELECT id, UPPER(name) AS name, price * qty AS total, CASE WHEN qty > 3 THEN 'many' ELSE 'few' END AS size FROM goods;
