-- What is no longer needed is deleted by functions that run with the owner's rights, so that the service's own role
-- may delete no charge, no attempt and no history. And the roles that it runs as.

-- +goose Up
SET lock_timeout = '5s';

-- A letter whose bytes held what looks like a card number: it was stored with asterisks and cannot be replayed.
ALTER TABLE dead_letter ADD COLUMN masked boolean NOT NULL DEFAULT false;

-- The history of this charge was deleted: its own facts are all that is left.
ALTER TABLE charge ADD COLUMN history_purged boolean NOT NULL DEFAULT false;

-- Reports whether this transaction is the one maintainer that may delete, and refuses what no operator can mean.
-- +goose StatementBegin
CREATE FUNCTION billing_may_purge(period interval, n integer) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF period IS NULL OR period < interval '1 hour' OR n IS NULL OR n NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a period of % or a chunk of % rows is out of bounds', period, n USING ERRCODE = '22023';
    END IF;
    RETURN pg_try_advisory_xact_lock(hashtextextended('billing_retention', 0));
END
$$;
-- +goose StatementEnd

-- Each of these looks at the next n rows behind a key, deletes what ended longer ago than period, and returns how many
-- rows it deleted (-1: another session is at it) and the key to go on behind, null at the end.

-- Deletes attempts of charges that are final. Evidence against a charge stays: a success of one that did not succeed.
-- +goose StatementBegin
CREATE FUNCTION billing_purge_attempts(period interval, after uuid, n integer, OUT purged integer, OUT next uuid)
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '2s' AS $$
BEGIN
    IF NOT billing_may_purge(period, n) THEN
        purged := -1;
        RETURN;
    END IF;
    WITH page AS MATERIALIZED (
        SELECT a.event_id FROM charge_attempt a WHERE a.event_id > after ORDER BY a.event_id LIMIT n
    ), final AS MATERIALIZED (
        SELECT c.event_id, c.status FROM charge c
         WHERE c.event_id IN (SELECT p.event_id FROM page p) AND c.status IN ('succeeded', 'declined', 'cancelled')
           AND c.updated_at < clock_timestamp() - period
           AND NOT EXISTS (SELECT FROM outbox o WHERE o.channel = 'provider' AND o.event_id = c.event_id)
           AND NOT EXISTS (SELECT FROM charge_attempt a WHERE a.event_id = c.event_id
                            AND (a.finished_at IS NULL OR a.finished_at >= clock_timestamp() - period
                                 OR (a.outcome = 'succeeded' AND c.status <> 'succeeded')))
    ), gone AS (
        DELETE FROM charge_attempt a USING final f WHERE a.event_id = f.event_id RETURNING a.event_id
    )
    SELECT (SELECT count(*) FROM gone), CASE WHEN count(*) = n THEN (array_agg(p.event_id ORDER BY p.event_id DESC))[1] END
      INTO purged, next FROM page p;
END
$$;
-- +goose StatementEnd

-- Deletes the history of charges that are final and whose every announcement was published. The charge remembers it.
-- +goose StatementBegin
CREATE FUNCTION billing_purge_history(period interval, after bigint, n integer, OUT purged integer, OUT next bigint)
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '2s' AS $$
BEGIN
    IF NOT billing_may_purge(period, n) THEN
        purged := -1;
        RETURN;
    END IF;
    WITH page AS MATERIALIZED (
        SELECT e.id, e.event_id FROM charge_event e WHERE e.id > after ORDER BY e.id LIMIT n
    ), final AS MATERIALIZED (
        SELECT c.event_id FROM charge c
         WHERE c.event_id IN (SELECT p.event_id FROM page p) AND c.status IN ('succeeded', 'declined', 'cancelled')
           AND c.updated_at < clock_timestamp() - period
           AND NOT EXISTS (SELECT FROM outbox o WHERE o.event_id = c.event_id)
           AND NOT EXISTS (SELECT FROM charge_event e WHERE e.event_id = c.event_id
                            AND ((e.version IS NOT NULL AND e.published_at IS NULL)
                                 OR greatest(e.at, e.published_at) >= clock_timestamp() - period))
           -- a history that does not end in the present status is a finding of the audit, not waste
           AND EXISTS (SELECT FROM charge_event e WHERE e.event_id = c.event_id AND e.version = c.version AND e.to_status = c.status)
    ), gone AS (
        DELETE FROM charge_event e USING final f WHERE e.event_id = f.event_id RETURNING e.event_id
    ), marked AS (
        UPDATE charge c SET history_purged = true FROM final f WHERE c.event_id = f.event_id
    )
    SELECT (SELECT count(*) FROM gone), CASE WHEN count(*) = n THEN max(p.id) END INTO purged, next FROM page p;
END
$$;
-- +goose StatementEnd

-- Deletes dead letters that were replayed or discarded and whose copy was published.
-- +goose StatementBegin
CREATE FUNCTION billing_purge_dead_letters(period interval, after bigint, n integer, OUT purged integer, OUT next bigint)
LANGUAGE plpgsql SECURITY DEFINER SET lock_timeout = '2s' AS $$
BEGIN
    IF NOT billing_may_purge(period, n) THEN
        purged := -1;
        RETURN;
    END IF;
    WITH page AS MATERIALIZED (
        SELECT d.id FROM dead_letter d WHERE d.id > after ORDER BY d.id LIMIT n
    ), gone AS (
        DELETE FROM dead_letter d USING page p
         WHERE d.id = p.id AND d.status <> 'open' AND d.published_at IS NOT NULL
           AND greatest(d.resolved_at, d.published_at) < clock_timestamp() - period
           AND NOT EXISTS (SELECT FROM outbox o WHERE o.channel = 'kafka' AND o.dead_letter_id = d.id)
        RETURNING d.id
    )
    SELECT (SELECT count(*) FROM gone), CASE WHEN count(*) = n THEN max(p.id) END INTO purged, next FROM page p;
END
$$;
-- +goose StatementEnd

-- Makes the roles where this user may, and gives them what they need in this database. Roles are of the whole
-- server: another database may be making them at the same moment. Runs at every `billing migrate up`, so that roles which an
-- administrator makes later get their rights then; when they have them nothing is written.
-- +goose StatementBegin
CREATE FUNCTION billing_grant_roles() RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    role text;
    s    text := current_schema();
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('billing_roles', 0));
    FOREACH role IN ARRAY ARRAY['billing_app', 'billing_readonly'] LOOP
        CONTINUE WHEN EXISTS (SELECT FROM pg_roles WHERE rolname = role);
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION
            WHEN duplicate_object OR unique_violation THEN NULL;
            WHEN insufficient_privilege THEN
                RAISE NOTICE 'role % is not there and this user may not create it: let an administrator create it and run billing migrate up again', role;
        END;
    END LOOP;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'billing_app') THEN
        IF NOT has_function_privilege('billing_app', 'billing_purge_dead_letters(interval, bigint, integer)', 'EXECUTE') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO billing_app', s);
            GRANT SELECT ON charge, charge_attempt, charge_event, outbox, dead_letter, processed_event, consumer_position, idempotency_key,
                            control, operator_action, process, outbox_state, goose_db_version TO billing_app;
            GRANT INSERT ON charge, charge_attempt, charge_event, outbox, dead_letter, processed_event, consumer_position, idempotency_key,
                            control, operator_action, process TO billing_app;
            -- What a charge is about never changes, and neither does what was written down about it.
            GRANT UPDATE (status, last_outcome, reason, provider_account, provider_ref, attempts, first_sent_at, pending_since, version,
                          holds_order, updated_at) ON charge TO billing_app;
            GRANT UPDATE (finished_at, outcome, http_status, provider_code, provider_ref, detail) ON charge_attempt TO billing_app;
            GRANT UPDATE (published_at) ON charge_event TO billing_app;
            GRANT UPDATE (status, run_at, attempt) ON outbox TO billing_app;
            GRANT UPDATE (status, resolved_at, resolved_by, resolved_reason, published_at) ON dead_letter TO billing_app;
            GRANT UPDATE (duplicate_of) ON processed_event TO billing_app;
            GRANT UPDATE ON consumer_position, idempotency_key, process TO billing_app;
            GRANT DELETE ON outbox, processed_event, idempotency_key, control, process TO billing_app;
            GRANT EXECUTE ON FUNCTION billing_create_partitions(interval, interval), billing_detach_partition(interval), billing_drop_partition(interval),
                billing_purge_attempts(interval, uuid, integer), billing_purge_history(interval, bigint, integer),
                billing_purge_dead_letters(interval, bigint, integer) TO billing_app;
        END IF;
    END IF;
    IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'billing_readonly') THEN
        IF NOT has_table_privilege('billing_readonly', 'outbox_state', 'SELECT') THEN
            EXECUTE format('GRANT USAGE ON SCHEMA %I TO billing_readonly', s);
            BEGIN -- for the provider's list and the results topic, which an audit compares; PUBLIC has it unless it was taken away
                EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO billing_readonly', current_database());
            EXCEPTION WHEN insufficient_privilege THEN
                RAISE NOTICE 'billing_readonly may not get TEMPORARY on this database: audit --provider and --results need it';
            END;
            -- No payload of anybody, and no stored answer.
            GRANT SELECT (id, consumer_group, topic, partition, "offset", message_time, reason, detail, event_id, status, resolved_at,
                          resolved_by, resolved_reason, published_at, created_at, masked) ON dead_letter TO billing_readonly;
            GRANT SELECT (id, channel, status, event_type, topic, event_id, version, dead_letter_id, run_at, attempt, created_at)
                ON outbox TO billing_readonly;
            GRANT SELECT ON charge, charge_attempt, charge_event, processed_event, consumer_position, control, operator_action, process,
                            goose_db_version TO billing_readonly;
            GRANT SELECT ON outbox_state TO billing_readonly;
        END IF;
    END IF;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
DO $$
DECLARE
    f text;
BEGIN
    FOREACH f IN ARRAY ARRAY['billing_purge_attempts(interval, uuid, integer)', 'billing_purge_history(interval, bigint, integer)',
                             'billing_purge_dead_letters(interval, bigint, integer)', 'billing_grant_roles()'] LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
        EXECUTE format('REVOKE ALL ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
    REVOKE ALL ON FUNCTION billing_may_purge(interval, integer) FROM PUBLIC;
    PERFORM billing_grant_roles();
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION billing_grant_roles, billing_purge_dead_letters, billing_purge_history, billing_purge_attempts, billing_may_purge;
ALTER TABLE charge DROP COLUMN history_purged;
ALTER TABLE dead_letter DROP COLUMN masked;
