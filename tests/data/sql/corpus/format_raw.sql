SELECT line, CHAR_LENGTH(line) AS n FROM lines;
