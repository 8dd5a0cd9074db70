-- quick in streaming
SELECT shop, q FROM (SELECT *, ROW_NUMBER() OVER (ORDER BY q DESC, shop) AS place FROM (
  SELECT shop, SUM(qty) AS q FROM goods GROUP BY shop)) WHERE place <= 2;
