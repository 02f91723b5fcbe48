table charge with (fillfactor=50)
    event_id uuid not null
    order_id text not null
    customer_id text not null
    amount_minor bigint not null
    currency text not null
    source text not null
    client text
    status text not null default 'requested'::text
    last_outcome text
    reason text
    provider_account text
    provider_ref text
    attempts integer not null default 0
    first_sent_at timestamp with time zone
    pending_since timestamp with time zone
    version integer not null default 0
    holds_order boolean not null default true
    created_at timestamp with time zone not null default clock_timestamp()
    updated_at timestamp with time zone not null default clock_timestamp()
    history_purged boolean not null default false
    constraint charge_amount_minor_check CHECK ((amount_minor > 0))
    constraint charge_check CHECK (
CASE
    WHEN (status = ANY (ARRAY['declined'::text, 'cancelled'::text])) THEN (NOT holds_order)
    ELSE (holds_order OR (status = 'parked'::text))
END)
    constraint charge_check1 CHECK (((status <> 'cancelled'::text) OR (first_sent_at IS NULL)))
    constraint charge_currency_check CHECK ((currency ~ '^[A-Z]{3}$'::text))
    constraint charge_customer_id_check CHECK ((customer_id <> ''::text))
    constraint charge_last_outcome_check CHECK ((last_outcome = ANY (ARRAY['succeeded'::text, 'declined'::text, 'pending'::text, 'rejected'::text, 'not_sent'::text, 'unknown'::text])))
    constraint charge_order_id_check CHECK ((order_id <> ''::text))
    constraint charge_pkey PRIMARY KEY (event_id)
    constraint charge_source_check CHECK ((source = ANY (ARRAY['kafka'::text, 'api'::text])))
    constraint charge_status_check CHECK ((status = ANY (ARRAY['requested'::text, 'succeeded'::text, 'declined'::text, 'parked'::text, 'cancelled'::text])))
    CREATE INDEX charge_client ON public.charge USING btree (client, event_id) WHERE (client IS NOT NULL)
    CREATE INDEX charge_order_past ON public.charge USING btree (order_id) WHERE (NOT holds_order)
    CREATE UNIQUE INDEX charge_order_key ON public.charge USING btree (order_id) WHERE holds_order
    CREATE TRIGGER charge_keep_terminal AFTER UPDATE ON public.charge FOR EACH ROW WHEN (((old.status = ANY (ARRAY['succeeded'::text, 'declined'::text, 'cancelled'::text])) AND ((((((new.status IS DISTINCT FROM old.status) OR (new.event_id IS DISTINCT FROM old.event_id)) OR (new.order_id IS DISTINCT FROM old.order_id)) OR (new.customer_id IS DISTINCT FROM old.customer_id)) OR (new.amount_minor IS DISTINCT FROM old.amount_minor)) OR (new.currency IS DISTINCT FROM old.currency)))) EXECUTE FUNCTION charge_keep_terminal()
table charge_attempt with (fillfactor=70)
    event_id uuid not null
    attempt integer not null
    started_at timestamp with time zone not null default clock_timestamp()
    finished_at timestamp with time zone
    outcome text
    http_status integer
    provider_code text
    provider_ref text
    detail text
    constraint charge_attempt_check CHECK (((outcome IS NULL) = (finished_at IS NULL)))
    constraint charge_attempt_outcome_check CHECK ((outcome = ANY (ARRAY['succeeded'::text, 'declined'::text, 'pending'::text, 'rejected'::text, 'not_sent'::text, 'unknown'::text])))
    constraint charge_attempt_pkey PRIMARY KEY (event_id, attempt)
table charge_event with (fillfactor=70)
    id bigint not null generated always as identity
    event_id uuid not null
    version integer
    announcement_id uuid
    type text not null
    from_status text not null
    to_status text not null
    reason text
    actor text not null default 'billing'::text
    at timestamp with time zone not null default clock_timestamp()
    published_at timestamp with time zone
    constraint charge_event_check CHECK (((version IS NULL) = (announcement_id IS NULL)))
    constraint charge_event_event_id_version_key UNIQUE (event_id, version)
    constraint charge_event_pkey PRIMARY KEY (id)
    CREATE TRIGGER charge_event_keep_history AFTER UPDATE ON public.charge_event FOR EACH ROW WHEN (((old.published_at IS NOT NULL) OR (((((((((new.event_id IS DISTINCT FROM old.event_id) OR (new.version IS DISTINCT FROM old.version)) OR (new.announcement_id IS DISTINCT FROM old.announcement_id)) OR (new.type IS DISTINCT FROM old.type)) OR (new.from_status IS DISTINCT FROM old.from_status)) OR (new.to_status IS DISTINCT FROM old.to_status)) OR (new.reason IS DISTINCT FROM old.reason)) OR (new.actor IS DISTINCT FROM old.actor)) OR (new.at IS DISTINCT FROM old.at)))) EXECUTE FUNCTION charge_event_keep_history()
table consumer_position with (fillfactor=50)
    cluster_id text not null
    consumer_group text not null
    topic text not null
    partition integer not null
    next_offset bigint not null
    reread_below bigint not null default 0
    gap text
    gap_accepted boolean not null default false
    halted text
    halted_by text
    pass_below bigint not null default 0
    updated_at timestamp with time zone not null default clock_timestamp()
    topic_retention_ms bigint not null default 0
    skips int8multirange not null default '{}'::int8multirange
    constraint consumer_position_next_offset_check CHECK ((next_offset >= 0))
    constraint consumer_position_pkey PRIMARY KEY (cluster_id, consumer_group, topic, partition)
table control
    name text not null
    actor text not null
    reason text not null
    set_at timestamp with time zone not null default clock_timestamp()
    constraint control_name_check CHECK ((name = ANY (ARRAY['charging_paused'::text, 'history_lost'::text])))
    constraint control_pkey PRIMARY KEY (name)
    constraint control_reason_check CHECK ((reason <> ''::text))
table dead_letter
    id bigint not null generated always as identity
    consumer_group text not null
    topic text not null
    partition integer not null
    offset bigint not null
    message_time timestamp with time zone not null
    key bytea
    value bytea
    headers bytea[] not null default '{}'::bytea[]
    reason text not null
    detail text not null
    event_id uuid
    status text not null default 'open'::text
    resolved_at timestamp with time zone
    resolved_by text
    resolved_reason text
    published_at timestamp with time zone
    created_at timestamp with time zone not null default clock_timestamp()
    masked boolean not null default false
    constraint dead_letter_consumer_group_topic_partition_offset_message_t_key UNIQUE (consumer_group, topic, partition, "offset", message_time)
    constraint dead_letter_detail_check CHECK ((detail <> ''::text))
    constraint dead_letter_pkey PRIMARY KEY (id)
    constraint dead_letter_status_check CHECK ((status = ANY (ARRAY['open'::text, 'replayed'::text, 'discarded'::text])))
    CREATE INDEX dead_letter_open ON public.dead_letter USING btree (created_at) WHERE (status = 'open'::text)
table idempotency_key
    client text not null
    key text not null
    request_hash bytea not null
    event_id uuid not null
    response_status smallint not null
    location text not null
    response_body bytea not null
    created_at timestamp with time zone not null default clock_timestamp()
    expires_at timestamp with time zone not null
    constraint idempotency_key_key_check CHECK (((length(key) >= 1) AND (length(key) <= 255)))
    constraint idempotency_key_pkey PRIMARY KEY (client, key)
    constraint idempotency_key_request_hash_check CHECK ((octet_length(request_hash) = 32))
    CREATE INDEX idempotency_key_expiry ON public.idempotency_key USING btree (expires_at)
table operator_action
    id bigint not null generated always as identity
    action text not null
    target text not null
    actor text not null
    reason text not null
    at timestamp with time zone not null default clock_timestamp()
    constraint operator_action_actor_check CHECK ((actor <> ''::text))
    constraint operator_action_pkey PRIMARY KEY (id)
    constraint operator_action_reason_check CHECK ((reason <> ''::text))
table outbox with (fillfactor=70, autovacuum_vacuum_scale_factor=0, autovacuum_vacuum_threshold=2000, autovacuum_vacuum_cost_delay=0, autovacuum_analyze_scale_factor=0, autovacuum_analyze_threshold=20000)
    id bigint not null generated always as identity
    channel text not null
    status text not null default 'PENDING'::text
    event_type text not null
    topic text
    msg_key bytea
    headers bytea[]
    payload bytea
    event_id uuid
    version integer
    dead_letter_id bigint
    run_at timestamp with time zone not null default clock_timestamp()
    attempt integer not null default 0
    created_at timestamp with time zone not null default clock_timestamp()
    constraint outbox_channel_check CHECK ((channel = ANY (ARRAY['provider'::text, 'kafka'::text])))
    constraint outbox_check CHECK (((channel <> 'provider'::text) OR ((event_id IS NOT NULL) AND (payload IS NOT NULL))))
    constraint outbox_check1 CHECK (((channel <> 'kafka'::text) OR (topic IS NOT NULL)))
    constraint outbox_pkey PRIMARY KEY (id)
    constraint outbox_status_check CHECK ((status = ANY (ARRAY['PENDING'::text, 'PUBLISHING'::text])))
    CREATE INDEX outbox_due ON public.outbox USING btree (channel, run_at)
    CREATE UNIQUE INDEX outbox_provider_charge ON public.outbox USING btree (event_id) WHERE (channel = 'provider'::text)
view outbox_state
    channel text
    event_type text
    event_id uuid
    version integer
    dead_letter_id bigint
    status text
    at timestamp with time zone
    attempt integer
table process with (fillfactor=50)
    id uuid not null
    host text not null
    version text not null
    roles text not null
    gate text
    gate_since timestamp with time zone
    started_at timestamp with time zone not null default clock_timestamp()
    seen_at timestamp with time zone not null default clock_timestamp()
    constraint process_pkey PRIMARY KEY (id)
table processed_event partition by RANGE (event_id)
    event_id uuid not null
    consumer_group text not null
    fingerprint bytea not null
    duplicate_of uuid
    processed_at timestamp with time zone not null default clock_timestamp()
    constraint processed_event_pkey PRIMARY KEY (event_id, consumer_group)
function billing_create_partitions(retention interval, skew interval) returns integer language plpgsql volatility v security definer set lock_timeout=100ms set search_path=public, pg_temp not for public
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
function billing_detach_partition(retention interval) returns text language plpgsql volatility v security definer set lock_timeout=100ms set search_path=public, pg_temp not for public
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
function billing_drop_partition(retention interval) returns text language plpgsql volatility v security definer set lock_timeout=100ms set search_path=public, pg_temp not for public
DECLARE
    victim text := billing_old_day(retention, false);
BEGIN
    IF victim IS NULL OR NOT pg_try_advisory_xact_lock(hashtextextended('billing_partitions', 0)) THEN
        RETURN NULL;
    END IF;
    EXECUTE format('DROP TABLE %I', victim);
    RETURN victim;
END
function billing_grant_roles() returns void language plpgsql volatility v set search_path=public, pg_temp not for public
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
function billing_id_bound(at timestamp with time zone) returns uuid language sql volatility s strict set search_path=pg_catalog
    SELECT (lpad(to_hex(greatest(floor(extract(epoch FROM at) * 1000), 0)::bigint), 12, '0') || repeat('0', 20))::uuid
function billing_may_purge(period interval, n integer) returns boolean language plpgsql volatility v set search_path=pg_catalog not for public
BEGIN
    IF period IS NULL OR period < interval '1 hour' OR n IS NULL OR n NOT BETWEEN 1 AND 1000 THEN
        RAISE EXCEPTION 'a period of % or a chunk of % rows is out of bounds', period, n USING ERRCODE = '22023';
    END IF;
    RETURN pg_try_advisory_xact_lock(hashtextextended('billing_retention', 0));
END
function billing_old_day(retention interval, attached boolean) returns text language plpgsql volatility s set search_path=public, pg_temp
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
function billing_purge_attempts(period interval, after uuid, n integer, OUT purged integer, OUT next uuid) returns record language plpgsql volatility v security definer set lock_timeout=2s set search_path=public, pg_temp not for public
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
function billing_purge_dead_letters(period interval, after bigint, n integer, OUT purged integer, OUT next bigint) returns record language plpgsql volatility v security definer set lock_timeout=2s set search_path=public, pg_temp not for public
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
function billing_purge_history(period interval, after bigint, n integer, OUT purged integer, OUT next bigint) returns record language plpgsql volatility v security definer set lock_timeout=2s set search_path=public, pg_temp not for public
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
function billing_require(ok boolean, state text, message text) returns boolean language plpgsql volatility v set search_path=pg_catalog
BEGIN
    IF ok IS NOT TRUE THEN
        RAISE EXCEPTION '%', message USING ERRCODE = state;
    END IF;
    RETURN true;
END
function charge_event_keep_history() returns trigger language plpgsql volatility v set search_path=pg_catalog
BEGIN
    RAISE EXCEPTION 'charge_event % is history and cannot change', OLD.id USING ERRCODE = 'BL011';
END
function charge_keep_terminal() returns trigger language plpgsql volatility v set search_path=pg_catalog
BEGIN
    RAISE EXCEPTION 'charge % is % and cannot change', OLD.event_id, OLD.status
        USING ERRCODE = 'BL010', HINT = 'succeeded, declined and cancelled charges are final';
END
