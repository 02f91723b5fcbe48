-- Days of processed_event are made ahead and dropped behind by functions that run with the owner's
-- rights, so that the service's own role needs no DDL. Every lock is asked for at most 100 ms: a
-- waiting ACCESS EXCLUSIVE lock would stop every insert behind it.
-- +goose Up
SET lock_timeout = '5s';

-- The smallest id of a day (UTC): 12 hex digits of its first millisecond, then zeros.
-- +goose StatementBegin
CREATE FUNCTION billing_id_bound(at timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog AS $$
    SELECT (lpad(to_hex(greatest(floor(extract(epoch FROM at) * 1000), 0)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd

-- Makes every missing day from now - retention - 1 day to now + skew + 2 days. Returns the number of
-- days made, or -1 when another session is maintaining.
-- +goose StatementBegin
CREATE FUNCTION billing_create_partitions(retention interval, skew interval) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '100ms' AS $$
DECLARE
    day     timestamp;
    name    text;
    created integer := 0;
BEGIN
    IF retention < interval '1 hour' OR skew < interval '0' OR skew > interval '72 hours' OR retention > interval '400 days' THEN
        RAISE EXCEPTION 'retention % or skew % is out of bounds', retention, skew USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('billing_partitions', 0)) THEN
        RETURN -1;
    END IF;
    FOR day IN SELECT generate_series(
            date_trunc('day', (clock_timestamp() - retention - interval '1 day') AT TIME ZONE 'UTC'),
            date_trunc('day', (clock_timestamp() + skew + interval '2 days') AT TIME ZONE 'UTC'),
            interval '1 day')
    LOOP
        name := 'processed_event_' || to_char(day, 'YYYYMMDD');
        CONTINUE WHEN EXISTS (SELECT FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
                               WHERE i.inhparent = 'processed_event'::regclass AND c.relname = name);
        EXECUTE format('CREATE TABLE IF NOT EXISTS %I (LIKE processed_event INCLUDING ALL)', name);
        EXECUTE format('ALTER TABLE processed_event ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)', name,
            billing_id_bound(day AT TIME ZONE 'UTC'), billing_id_bound((day + interval '1 day') AT TIME ZONE 'UTC'));
        created := created + 1;
    END LOOP;
    RETURN created;
END
$$;
-- +goose StatementEnd

-- Drops at most one day that ended more than a day before the retention began: an id is refused
-- by its age long before its row is gone. Returns the name of the dropped day, null when there is none.
-- +goose StatementBegin
CREATE FUNCTION billing_drop_partition(retention interval) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '100ms' AS $$
DECLARE
    victim text;
BEGIN
    IF retention < interval '1 hour' THEN
        RAISE EXCEPTION 'retention % is out of bounds', retention USING ERRCODE = '22023';
    END IF;
    IF NOT pg_try_advisory_xact_lock(hashtextextended('billing_partitions', 0)) THEN
        RETURN NULL;
    END IF;
    SELECT c.relname INTO victim
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
     WHERE i.inhparent = 'processed_event'::regclass
       AND c.relname ~ '^processed_event_[0-9]{8}$'
       AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' < clock_timestamp() - retention - interval '1 day'
     ORDER BY c.relname LIMIT 1;
    IF victim IS NOT NULL THEN
        EXECUTE format('DROP TABLE %I', victim);
    END IF;
    RETURN victim;
END
$$;
-- +goose StatementEnd

-- A function with its owner's rights must not look anything up in a schema of the caller.
-- +goose StatementBegin
DO $$
DECLARE
    f text;
BEGIN
    FOREACH f IN ARRAY ARRAY['billing_create_partitions(interval, interval)', 'billing_drop_partition(interval)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    END LOOP;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION billing_create_partitions(interval, interval), billing_drop_partition(interval) FROM PUBLIC;

-- +goose Down
DROP FUNCTION billing_drop_partition, billing_create_partitions, billing_id_bound;
