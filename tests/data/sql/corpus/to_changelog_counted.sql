-- modes: streaming
SELECT op, COUNT(*) AS n FROM to_changelog(input => TABLE goods) GROUP BY op;
