-- modes: streaming
SELECT team FROM staff EXCEPT ALL SELECT team FROM teams;
