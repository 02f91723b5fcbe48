-- The days that the inbox has partitions for.
SELECT count(*), min(day), max(day), coalesce(bool_or(day = today), false), coalesce(bool_or(day = today + 1), false)
  FROM (SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS day, (clock_timestamp() AT TIME ZONE 'UTC')::date AS today
          FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
         WHERE i.inhparent = 'processed_event'::regclass AND c.relname ~ '^processed_event_[0-9]{8}$') d
