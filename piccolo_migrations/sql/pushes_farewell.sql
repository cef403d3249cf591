-- `own_lists.sql` was edited after databases had run it: their pushes have no mark for the last push of a device.
ALTER TABLE pushes ADD COLUMN IF NOT EXISTS is_farewell BOOLEAN NOT NULL DEFAULT false;
