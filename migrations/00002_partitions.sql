-- Days of processed_event are made ahead and dropped behind by functions that run with the owner's
-- rights, so that the service's own role needs no DDL. Every lock is asked for at most 100 ms: a
-- waiting ACCESS EXCLUSIVE lock stops every insert behind it.
-- +goose Up
SET lock_timeout = '5s';

-- The smallest id of a day (UTC): 12 hex digits of its first millisecond, then zeros.
-- +goose StatementBegin
CREATE FUNCTION billing_id_bound(at timestamptz) RETURNS uuid
LANGUAGE sql STABLE STRICT SET search_path = pg_catalog AS $$
    SELECT (lpad(to_hex(greatest(floor(extract(epoch FROM at) * 1000), 0)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd

-- Makes the first missing day from now - retention - 1 day to now + skew + 2 days. Returns 1 when it made one, 0 when none is
-- missing, -1 when another session is maintaining. One at a time: the file of each new index is synced at once, and the
-- commits of others wait for the disk meanwhile.
-- +goose StatementBegin
CREATE FUNCTION billing_create_partitions(retention interval, skew interval) RETURNS integer
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '100ms' AS $$
DECLARE
    day  timestamp;
    name text;
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
        RETURN 1;
    END LOOP;
    RETURN 0;
END
$$;
-- +goose StatementEnd

-- The oldest day that ended more than a day before the retention began, among those that belong to the inbox or among those that
-- do not any more: an id is refused by its age long before its row is gone.
-- +goose StatementBegin
CREATE FUNCTION billing_old_day(retention interval, attached boolean) RETURNS text
LANGUAGE plpgsql STABLE AS $$
BEGIN
    IF retention < interval '1 hour' THEN
        RAISE EXCEPTION 'retention % is out of bounds', retention USING ERRCODE = '22023';
    END IF;
    RETURN (
        SELECT c.relname FROM pg_class c
         WHERE c.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'processed_event'::regclass)
           AND c.relkind = 'r' AND c.relname ~ '^processed_event_[0-9]{8}$'
           AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhrelid = c.oid AND i.inhparent = 'processed_event'::regclass) = attached
           AND (to_date(right(c.relname, 8), 'YYYYMMDD') + 1)::timestamp AT TIME ZONE 'UTC' < clock_timestamp() - retention - interval '1 day'
         ORDER BY c.relname LIMIT 1);
END
$$;
-- +goose StatementEnd

-- Takes the oldest day that is past its retention out of the inbox and returns its name, null when there is none or another
-- session is maintaining. Every insert waits behind a request for the lock, so it gives up after 2 ms and asks again; only when
-- inserts have left no gap thirty times it waits for longer. Its commit waits for no disk, because the lock lasts until then: a
-- crash that loses it leaves a day to be taken out again.
-- +goose StatementBegin
CREATE FUNCTION billing_detach_partition(retention interval) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '100ms' AS $$
DECLARE
    victim   text := billing_old_day(retention, true);
    patience integer;
BEGIN
    IF victim IS NULL OR NOT pg_try_advisory_xact_lock(hashtextextended('billing_partitions', 0)) THEN
        RETURN NULL;
    END IF;
    PERFORM set_config('synchronous_commit', 'off', true);
    FOREACH patience IN ARRAY array_fill(2, ARRAY[30]) || array_fill(10, ARRAY[10]) || 100 LOOP
        BEGIN
            PERFORM set_config('lock_timeout', patience || 'ms', true);
            LOCK TABLE ONLY processed_event IN ACCESS EXCLUSIVE MODE;
            EXECUTE format('ALTER TABLE processed_event DETACH PARTITION %I', victim);
            RETURN victim;
        EXCEPTION WHEN lock_not_available THEN
            IF patience = 100 THEN
                RAISE;
            END IF;
        END;
        PERFORM pg_sleep(0.005);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- Drops the oldest day that is past its retention and not part of the inbox any more. Returns its name, null when there is none
-- or another session is maintaining.
-- +goose StatementBegin
CREATE FUNCTION billing_drop_partition(retention interval) RETURNS text
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '100ms' AS $$
DECLARE
    victim text := billing_old_day(retention, false);
BEGIN
    IF victim IS NULL OR NOT pg_try_advisory_xact_lock(hashtextextended('billing_partitions', 0)) THEN
        RETURN NULL;
    END IF;
    EXECUTE format('DROP TABLE %I', victim);
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
    FOREACH f IN ARRAY ARRAY['billing_create_partitions(interval, interval)', 'billing_old_day(interval, boolean)',
                             'billing_detach_partition(interval)', 'billing_drop_partition(interval)'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
    END LOOP;
END
$$;
-- +goose StatementEnd
REVOKE ALL ON FUNCTION billing_create_partitions(interval, interval), billing_detach_partition(interval), billing_drop_partition(interval) FROM PUBLIC;

-- +goose Down
DROP FUNCTION billing_drop_partition, billing_detach_partition, billing_old_day, billing_create_partitions, billing_id_bound;
