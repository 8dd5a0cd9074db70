-- modes: streaming
-- differs: Flink finds no NULL by IS NOT DISTINCT FROM in the query of EXISTS, although it does in ON of a JOIN
SELECT id FROM staff AS s WHERE NOT EXISTS (SELECT 1 FROM teams AS t WHERE t.team IS NOT DISTINCT FROM s.team);
