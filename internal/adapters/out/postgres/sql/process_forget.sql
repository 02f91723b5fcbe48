-- Forgets the processes that were killed.
DELETE FROM process WHERE seen_at < clock_timestamp() - interval '1 day'
