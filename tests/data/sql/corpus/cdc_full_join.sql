-- quick in streaming
SELECT g.id, c.city FROM goods AS g FULL JOIN cities AS c ON g.shop = c.shop;
