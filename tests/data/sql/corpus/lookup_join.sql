-- kinder in batch: a batch joins with the rows of now, as PROCTIME() asks
SELECT o.id, c.city FROM (SELECT *, PROCTIME() AS now_ FROM orders) AS o LEFT JOIN cities FOR SYSTEM_TIME AS OF o.now_ AS c ON o.shop = c.shop;
