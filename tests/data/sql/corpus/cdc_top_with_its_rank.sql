SELECT shop, id, place FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY shop ORDER BY qty DESC, id) AS place FROM goods) WHERE place <= 2;
