-- quick in streaming
SELECT word, COUNT(*) AS n FROM lines CROSS JOIN UNNEST(SPLIT(line, ' ')) AS t (word) GROUP BY word;
