SELECT id FROM orders /*+ OPTIONS('source.path.regex-pattern' = '.*') */ WHERE id < 3;
