-- A password that another person chose is replaced at the first sign-in. Operators who exist keep theirs.
ALTER TABLE control_center_users ADD COLUMN IF NOT EXISTS password_change_due BOOLEAN NOT NULL DEFAULT false;
