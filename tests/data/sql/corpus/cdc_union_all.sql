SELECT id, name FROM goods UNION ALL SELECT id, name FROM clients;
