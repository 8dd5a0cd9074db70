-- quick in streaming
SELECT currency, SUM(balance) AS b, COUNT(*) AS n FROM accounts GROUP BY currency;
