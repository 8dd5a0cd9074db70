-- modes: streaming
SELECT x.a, x.b, x.v, y.v AS other FROM keyed AS x LEFT JOIN keyed AS y ON x.a = y.a + 1 AND x.b <> 'zz';
