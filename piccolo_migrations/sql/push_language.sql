-- The language of a device's pushes. It may run again.

ALTER TABLE auth_sessions ADD COLUMN IF NOT EXISTS locale varchar(2);
