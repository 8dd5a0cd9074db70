-- modes: streaming
SELECT team, id, bonus FROM (
  SELECT *, ROW_NUMBER() OVER (PARTITION BY team ORDER BY bonus DESC NULLS LAST, id DESC) AS place FROM staff) WHERE place = 1;
