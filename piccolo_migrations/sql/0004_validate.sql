-- Check the rows that two constraints have not checked yet. This blocks no reader or writer.
ALTER TABLE chat_sessions VALIDATE CONSTRAINT chat_sessions_known_ended_by;
ALTER TABLE webhook_logs VALIDATE CONSTRAINT webhook_logs_known_source;
