-- Makes charges of events that are new in every respect: absent from the inbox of every group, of an
-- acceptable age, and of an order that no live charge holds. accept_plain.sql is its quick form.
-- $1 event ids (sorted, distinct) $2 orders $3 customers $4 amounts $5 currencies $6 fingerprints
-- $7 requests $8 traceparents $9 first sent at, for events that a restored database reads again. When such an event follows a
-- declined charge of its order, nobody knows whether the lost history had refused it or charged it: 'epoch' lies before every
-- key window, so that it is looked up and never sent.
-- $10 group $11 retention in seconds $12 skew in seconds
-- Locks are taken in one order by every transaction: ids in the inbox, then orders in charge.
WITH clock AS MATERIALIZED (
    SELECT now, billing_id_bound(now - make_interval(secs => $11::float8)) AS oldest,
           billing_id_bound(now + make_interval(secs => $12::float8)) AS newest
      FROM (SELECT clock_timestamp() AS now OFFSET 0) c
), input AS MATERIALIZED (
    SELECT unnest($1::uuid[]) AS event_id, unnest($2::text[]) AS order_id, unnest($3::text[]) AS customer_id,
           unnest($4::bigint[]) AS amount_minor, unnest($5::text[]) AS currency, unnest($6::bytea[]) AS fingerprint,
           unnest($7::bytea[]) AS request, unnest($8::text[]) AS traceparent, unnest($9::timestamptz[]) AS first_sent_at
), seen AS MATERIALIZED (
    SELECT p.* FROM input i, LATERAL (
        SELECT event_id, fingerprint FROM processed_event WHERE event_id = i.event_id OFFSET 0
    ) p -- one probe for each id, whatever the statistics of a day that has just begun
), fresh AS MATERIALIZED (
    SELECT i.* FROM input i, clock
     WHERE i.event_id NOT IN (SELECT s.event_id FROM seen s) AND i.event_id >= clock.oldest AND i.event_id < clock.newest
), won AS (
    INSERT INTO processed_event (event_id, consumer_group, fingerprint)
    SELECT event_id, $10::text, fingerprint FROM fresh ORDER BY event_id
    ON CONFLICT DO NOTHING RETURNING event_id
), charged AS (
    INSERT INTO charge (event_id, order_id, customer_id, amount_minor, currency, source, first_sent_at)
    SELECT f.event_id, f.order_id, f.customer_id, f.amount_minor, f.currency, 'kafka',
           CASE WHEN f.first_sent_at IS NULL THEN NULL
                WHEN EXISTS (SELECT FROM charge p WHERE p.order_id = f.order_id AND NOT p.holds_order) THEN 'epoch'
                ELSE least(f.first_sent_at, clock.now) END
      FROM fresh f JOIN won ON won.event_id = f.event_id, clock ORDER BY f.order_id COLLATE "C"
    ON CONFLICT DO NOTHING RETURNING event_id
), ordered AS (
    INSERT INTO outbox (channel, event_type, event_id, payload, headers)
    SELECT 'provider', 'ChargeRequested', f.event_id, f.request, ARRAY['traceparent'::bytea, convert_to(f.traceparent, 'UTF8')]
      FROM fresh f JOIN charged c ON c.event_id = f.event_id
)
SELECT i.event_id, c.event_id IS NOT NULL AS charged
  FROM input i LEFT JOIN charged c ON c.event_id = i.event_id
 ORDER BY i.event_id
