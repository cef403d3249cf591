-- Drop the functions that only processes before 0.2 called. Their successors have the same names and other arguments.
DROP FUNCTION IF EXISTS chat_commit(
  UUID[], UUID[], UUID[], UUID[], TEXT[], TEXT[], TEXT[],
  UUID[], INT[], INT[], INT[], INT[], TIMESTAMPTZ, FLOAT8
);
DROP FUNCTION IF EXISTS chat_fill(UUID[], INT[]);
DROP FUNCTION IF EXISTS free_mitras(TIMESTAMPTZ, BOOLEAN, INT, INT);
