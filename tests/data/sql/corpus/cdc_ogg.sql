SELECT * FROM accounts;
