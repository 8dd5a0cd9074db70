-- differs in streaming: LISTAGG has the values in another order, as in docs/sql.md
SELECT k, LISTAGG(CAST(v AS STRING)) AS l FROM changes GROUP BY k;
