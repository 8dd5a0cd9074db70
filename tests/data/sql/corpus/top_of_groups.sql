SELECT shop, n FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY n DESC, shop) AS place FROM (
  SELECT shop, COUNT(*) AS n FROM orders GROUP BY shop)) WHERE place <= 2;
