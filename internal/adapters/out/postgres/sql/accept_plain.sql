-- The common case of accept.sql, for a chunk of new events and plain duplicates of ones that were seen before. It finds the
-- seen ones first and inserts the others without ON CONFLICT, which looks twice into every unique index: whatever meets a
-- row of another transaction ends it (23505), and anything else but the common case does, too (BL001). Nothing is written
-- then, and the chunk is judged event by event.
-- $1 event ids (sorted, distinct) $2 orders $3 customers $4 amounts $5 currencies $6 fingerprints
-- $7 requests $8 traceparents $9 first sent at, for events that a restored database reads again. When such an event follows a
-- declined charge of its order, nobody knows whether the lost history had refused it or charged it: 'epoch' lies before every
-- key window, so that it is looked up and never sent.
-- $10 group $11 retention in seconds $12 skew in seconds $13 smallest and $14 largest of $1
-- The bounds let the planner or the executor see the one day that is meant, and nothing is joined, so that a generic plan does
-- as well as any other. Locks are taken in the order of accept.sql, which the counts
-- enforce: ids in the inbox, then orders in charge, then the queue. It returns the seen ids.
WITH clock AS MATERIALIZED (
    SELECT now, billing_id_bound(now - make_interval(secs => $11::float8)) AS oldest,
           billing_id_bound(now + make_interval(secs => $12::float8)) AS newest
      FROM (SELECT clock_timestamp() AS now OFFSET 0) c
), input AS MATERIALIZED (
    SELECT unnest($1::uuid[]) AS event_id, unnest($2::text[]) AS order_id, unnest($3::text[]) AS customer_id,
           unnest($4::bigint[]) AS amount_minor, unnest($5::text[]) AS currency, unnest($6::bytea[]) AS fingerprint,
           unnest($7::bytea[]) AS request, unnest($8::text[]) AS traceparent, unnest($9::timestamptz[]) AS first_sent_at
), seen AS MATERIALIZED (
    SELECT p.event_id, p.fingerprint, i.fingerprint AS mine FROM input i, LATERAL (
        SELECT event_id, fingerprint FROM processed_event
         WHERE event_id = i.event_id AND event_id >= $13::uuid AND event_id <= $14::uuid OFFSET 0
    ) p
), fresh AS MATERIALIZED (
    SELECT i.* FROM input i, clock
     WHERE i.event_id NOT IN (SELECT s.event_id FROM seen s) AND i.event_id >= clock.oldest AND i.event_id < clock.newest
), won AS (
    INSERT INTO processed_event (event_id, consumer_group, fingerprint)
    SELECT event_id, $10::text, fingerprint FROM fresh
    RETURNING 1
), charged AS (
    INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source, first_sent_at)
    SELECT f.event_id, f.order_id, f.customer_id, f.amount_minor, f.currency, 'kafka',
           CASE WHEN f.first_sent_at IS NULL THEN NULL
                WHEN EXISTS (SELECT FROM charge p WHERE p.order_id = f.order_id AND NOT p.holds_order) THEN 'epoch'
                ELSE least(f.first_sent_at, clock.now) END
      FROM fresh f, clock WHERE (SELECT count(*) FROM won) > 0 ORDER BY f.order_id COLLATE "C"
    RETURNING 1
), ordered AS (
    INSERT INTO outbox (channel, event_type, event_id, payload, headers)
    SELECT 'provider', 'ChargeRequested', event_id, request, ARRAY['traceparent'::bytea, convert_to(traceparent, 'UTF8')]
      FROM fresh WHERE (SELECT count(*) FROM charged) > 0
), plain AS (
    SELECT FROM seen GROUP BY event_id
    HAVING NOT bool_or(get_byte(fingerprint, 0) = get_byte(mine, 0) AND fingerprint <> mine)
)
SELECT (SELECT now FROM clock), ARRAY(SELECT DISTINCT event_id FROM seen),
       billing_require((SELECT count(*) FROM fresh) + (SELECT count(*) FROM plain) = cardinality($1::uuid[]),
                       'BL001', 'the chunk needs a verdict for each message')
