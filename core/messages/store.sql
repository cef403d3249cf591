-- name: commit
-- Store a batch of messages and read markers. Arrays are sent as text, which PostgreSQL parses faster than Python
-- encodes the binary form.
SELECT *
FROM
  chat_commit(
    $1::text::uuid[],
    $2::text::int[],
    $3::text::int[],
    $4::text::int[],
    $5::text::int[],
    $6::text::int[],
    $7::text::uuid[],
    $8::text::uuid[],
    $9::text::uuid[],
    $10::text::text[],
    $11::text::text[],
    $12::text::text[],
    $13,
    $14
  );

-- name: sync_statuses
-- Sync the statuses of messages with the read markers of their session. Safe to repeat.
SELECT
  id::text,
  final,
  goes_on
FROM chat_fill($1, $2, $3);
