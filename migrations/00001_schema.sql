-- The schema of billing. Money is bigint minor units, time is timestamptz, ids of events are UUIDs.
-- +goose Up
SET lock_timeout = '5s';

-- The inbox. Partitioned by the day inside the UUID v7, so that the primary key stays global: a key
-- that contained a time of arrival would accept the same event again a moment later.
-- There is no DEFAULT partition on purpose: an id whose day was dropped must be refused (23514).
CREATE TABLE processed_event (
    event_id       uuid        NOT NULL,
    consumer_group text        NOT NULL,
    fingerprint    bytea       NOT NULL,
    duplicate_of   uuid,
    processed_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (event_id, consumer_group)
) PARTITION BY RANGE (event_id);

-- A sum to collect exactly once. holds_order is the predicate of the unique index and changes only by
-- decline and cancel, so that an ordinary settle stays a HOT update. A parked charge gives its order back when an event
-- that was read again after a restore followed a declined charge and is unknown to the provider: another one may be known.
CREATE TABLE charge (
    event_id         uuid        PRIMARY KEY,
    order_id         text        NOT NULL CHECK (order_id <> ''),
    customer_id      text        NOT NULL CHECK (customer_id <> ''),
    amount_minor     bigint      NOT NULL CHECK (amount_minor > 0),
    currency         text        NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    source           text        NOT NULL CHECK (source IN ('kafka', 'api')),
    client           text,
    status           text        NOT NULL DEFAULT 'requested'
                     CHECK (status IN ('requested', 'succeeded', 'declined', 'parked', 'cancelled')),
    last_outcome     text        CHECK (last_outcome IN ('succeeded', 'declined', 'pending', 'rejected', 'not_sent', 'unknown')),
    reason           text,
    provider_account text,
    provider_ref     text,
    attempts         integer     NOT NULL DEFAULT 0,
    first_sent_at    timestamptz,
    pending_since    timestamptz,
    version          integer     NOT NULL DEFAULT 0,
    holds_order      boolean     NOT NULL DEFAULT true,
    created_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (CASE WHEN status IN ('declined', 'cancelled') THEN NOT holds_order ELSE holds_order OR status = 'parked' END),
    CHECK (status <> 'cancelled' OR first_sent_at IS NULL)
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX charge_order_key ON charge (order_id) WHERE holds_order;
-- For the lists of the API. Neither takes an entry when an event is charged, nor keeps a settle from being HOT.
CREATE INDEX charge_order_past ON charge (order_id) WHERE NOT holds_order;
CREATE INDEX charge_client ON charge (client, event_id) WHERE client IS NOT NULL;

-- The journal of calls that may take money: the row exists before the request is sent.
CREATE TABLE charge_attempt (
    event_id      uuid        NOT NULL,
    attempt       integer     NOT NULL,
    started_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at   timestamptz,
    outcome       text        CHECK (outcome IN ('succeeded', 'declined', 'pending', 'rejected', 'not_sent', 'unknown')),
    http_status   integer,
    provider_code text,
    provider_ref  text,
    detail        text,
    PRIMARY KEY (event_id, attempt),
    CHECK ((outcome IS NULL) = (finished_at IS NULL))
) WITH (fillfactor = 70);

-- What happened to a charge, by whom, and when the world was told. Rows with a version are announcements.
CREATE TABLE charge_event (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    event_id        uuid        NOT NULL,
    version         integer,
    announcement_id uuid,
    type            text        NOT NULL,
    from_status     text        NOT NULL,
    to_status       text        NOT NULL,
    reason          text,
    actor           text        NOT NULL DEFAULT 'billing',
    at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    published_at    timestamptz,
    CHECK ((version IS NULL) = (announcement_id IS NULL)),
    UNIQUE (event_id, version)
) WITH (fillfactor = 70);

-- Work ordered outside: a provider call or a Kafka message. headers are name, value, name, value … run_at is the due time of a PENDING row
-- and the end of the lease of a PUBLISHING one; attempt is the fencing token and never goes back.
-- A parked charge keeps its row with run_at = infinity.
CREATE TABLE outbox (
    id             bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    channel        text        NOT NULL CHECK (channel IN ('provider', 'kafka')),
    status         text        NOT NULL DEFAULT 'PENDING' CHECK (status IN ('PENDING', 'PUBLISHING')),
    event_type     text        NOT NULL,
    topic          text,
    msg_key        bytea,
    headers        bytea[],
    payload        bytea,
    event_id       uuid,
    version        integer,
    dead_letter_id bigint,
    run_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    attempt        integer     NOT NULL DEFAULT 0,
    created_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    CHECK (channel <> 'provider' OR (event_id IS NOT NULL AND payload IS NOT NULL)),
    CHECK (channel <> 'kafka' OR topic IS NOT NULL)
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);
CREATE INDEX outbox_due ON outbox (channel, run_at);
CREATE UNIQUE INDEX outbox_provider_charge ON outbox (event_id) WHERE channel = 'provider';

-- Messages that were refused, one row for each, with the original bytes.
CREATE TABLE dead_letter (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    consumer_group  text        NOT NULL,
    topic           text        NOT NULL,
    partition       integer     NOT NULL,
    "offset"        bigint      NOT NULL,
    message_time    timestamptz NOT NULL,
    key             bytea,
    value           bytea,
    headers         bytea[]     NOT NULL DEFAULT '{}',
    reason          text        NOT NULL,
    detail          text        NOT NULL CHECK (detail <> ''),
    event_id        uuid,
    status          text        NOT NULL DEFAULT 'open' CHECK (status IN ('open', 'replayed', 'discarded')),
    resolved_at     timestamptz,
    resolved_by     text,
    resolved_reason text,
    published_at    timestamptz,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (consumer_group, topic, partition, "offset", message_time)
);
CREATE INDEX dead_letter_open ON dead_letter (created_at) WHERE status = 'open';

-- The next offset of each partition, written in the transaction of the batch that ends there.
-- reread_below marks what a restored database must read again: events below it may have been charged.
-- halted_by is the version whose dead-letter brake halted it; pass_below marks what an operator released (-1: all that is there).
-- topic_retention_ms is how long the topic keeps messages: 0 not known, negative without limit.
CREATE TABLE consumer_position (
    cluster_id     text        NOT NULL,
    consumer_group text        NOT NULL,
    topic          text        NOT NULL,
    partition      integer     NOT NULL,
    next_offset    bigint      NOT NULL CHECK (next_offset >= 0),
    reread_below   bigint      NOT NULL DEFAULT 0,
    gap            text,
    gap_accepted   boolean     NOT NULL DEFAULT false,
    halted         text,
    halted_by      text,
    pass_below     bigint      NOT NULL DEFAULT 0,
    updated_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    topic_retention_ms bigint  NOT NULL DEFAULT 0,
    skips          int8multirange NOT NULL DEFAULT '{}', -- offsets that an operator gave up
    PRIMARY KEY (cluster_id, consumer_group, topic, partition)
) WITH (fillfactor = 50);

-- Answers of POST /v1/charges, kept so that a repeat gets the same bytes.
CREATE TABLE idempotency_key (
    client          text        NOT NULL,
    key             text        NOT NULL CHECK (length(key) BETWEEN 1 AND 255),
    request_hash    bytea       NOT NULL CHECK (octet_length(request_hash) = 32),
    event_id        uuid        NOT NULL,
    response_status smallint    NOT NULL,
    location        text        NOT NULL,
    response_body   bytea       NOT NULL,
    created_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (client, key)
);
CREATE INDEX idempotency_key_expiry ON idempotency_key (expires_at);

-- Switches: a row that exists is on. Names: charging_paused, history_lost.
CREATE TABLE control (
    name   text        PRIMARY KEY CHECK (name IN ('charging_paused', 'history_lost')),
    actor  text        NOT NULL,
    reason text        NOT NULL CHECK (reason <> ''),
    set_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What operators did outside a single charge: pause, resume, accept a gap, release a partition, skip records.
CREATE TABLE operator_action (
    id     bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    action text        NOT NULL,
    target text        NOT NULL,
    actor  text        NOT NULL CHECK (actor <> ''),
    reason text        NOT NULL CHECK (reason <> ''),
    at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Who runs, and how the gate of those that charge stands: what `billing status` shows of processes it cannot ask.
CREATE TABLE process (
    id         uuid        PRIMARY KEY,
    host       text        NOT NULL,
    version    text        NOT NULL,
    roles      text        NOT NULL,
    gate       text,
    gate_since timestamptz,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    seen_at    timestamptz NOT NULL DEFAULT clock_timestamp()
) WITH (fillfactor = 50);

-- The three words of the outbox in one place. A published row is gone from the queue; what it
-- announced carries the time.
CREATE VIEW outbox_state AS
SELECT channel, event_type, event_id, version, dead_letter_id, status, run_at AS at, attempt
  FROM outbox
 WHERE run_at < 'infinity'
UNION ALL
SELECT 'kafka', type, event_id, version, NULL, 'PUBLISHED', published_at, NULL
  FROM charge_event
 WHERE published_at IS NOT NULL
UNION ALL
SELECT 'kafka', 'DeadLetter', event_id, NULL, id, 'PUBLISHED', published_at, NULL
  FROM dead_letter
 WHERE published_at IS NOT NULL;

-- +goose StatementBegin
CREATE FUNCTION charge_keep_terminal() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'charge % is % and cannot change', OLD.event_id, OLD.status
        USING ERRCODE = 'BL010', HINT = 'succeeded, declined and cancelled charges are final';
END
$$;
-- +goose StatementEnd
-- AFTER, because a trigger BEFORE an update locks the row first: one more record in the log for each charge that moves.
CREATE TRIGGER charge_keep_terminal AFTER UPDATE ON charge FOR EACH ROW
    WHEN (OLD.status IN ('succeeded', 'declined', 'cancelled')
          AND (NEW.status, NEW.event_id, NEW.order_id, NEW.customer_id, NEW.amount_minor, NEW.currency)
              IS DISTINCT FROM
              (OLD.status, OLD.event_id, OLD.order_id, OLD.customer_id, OLD.amount_minor, OLD.currency))
    EXECUTE FUNCTION charge_keep_terminal();

-- +goose StatementBegin
CREATE FUNCTION charge_event_keep_history() RETURNS trigger LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    RAISE EXCEPTION 'charge_event % is history and cannot change', OLD.id USING ERRCODE = 'BL011';
END
$$;
-- +goose StatementEnd
CREATE TRIGGER charge_event_keep_history AFTER UPDATE ON charge_event FOR EACH ROW
    WHEN (OLD.published_at IS NOT NULL
          OR (NEW.event_id, NEW.version, NEW.announcement_id, NEW.type, NEW.from_status, NEW.to_status, NEW.reason, NEW.actor, NEW.at)
             IS DISTINCT FROM
             (OLD.event_id, OLD.version, OLD.announcement_id, OLD.type, OLD.from_status, OLD.to_status, OLD.reason, OLD.actor, OLD.at))
    EXECUTE FUNCTION charge_event_keep_history();

-- Ends the transaction with an error of our own when ok is not true, so that a pipelined batch can
-- refuse itself without a round trip.
-- +goose StatementBegin
CREATE FUNCTION billing_require(ok boolean, state text, message text) RETURNS boolean LANGUAGE plpgsql SET search_path = pg_catalog AS $$
BEGIN
    IF ok IS NOT TRUE THEN
        RAISE EXCEPTION '%', message USING ERRCODE = state;
    END IF;
    RETURN true;
END
$$;
-- +goose StatementEnd

-- +goose Down
DROP VIEW outbox_state;
DROP TABLE process, operator_action, control, idempotency_key, consumer_position, dead_letter, outbox, charge_event, charge_attempt, charge, processed_event;
DROP FUNCTION charge_keep_terminal, charge_event_keep_history, billing_require;
