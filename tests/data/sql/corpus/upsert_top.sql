SELECT shop, people FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY people DESC, shop) AS place FROM cities) WHERE place <= 2;
