SELECT * FROM clients;
