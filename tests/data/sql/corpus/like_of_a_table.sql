CREATE TABLE again (more AS qty + 1) LIKE orders (EXCLUDING WATERMARKS);
SELECT id, more FROM again WHERE more > 5;
