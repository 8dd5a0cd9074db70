-- quick in streaming
SELECT shop, id FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty, id DESC) AS place FROM goods) WHERE place <= 2;
