-- What the tables say of events that did not become charges. A second statement, so that its snapshot
-- shows winners which committed while the first one waited for them.
-- $1 event ids $2 orders $3 customers $4 amounts $5 currencies $6 fingerprints $7 group $8 retention $9 skew
WITH clock AS MATERIALIZED (
    SELECT billing_id_bound(clock_timestamp() - make_interval(secs => $8::float8)) AS oldest,
           billing_id_bound(clock_timestamp() + make_interval(secs => $9::float8)) AS newest
), input AS MATERIALIZED (
    SELECT unnest($1::uuid[]) AS event_id, unnest($2::text[]) AS order_id, unnest($3::text[]) AS customer_id,
           unnest($4::bigint[]) AS amount_minor, unnest($5::text[]) AS currency, unnest($6::bytea[]) AS fingerprint
), inbox AS MATERIALIZED (
    SELECT p.* FROM input i, LATERAL (
        SELECT event_id, fingerprint, consumer_group = $7::text AND xmin = pg_current_xact_id()::xid AS mine
          FROM processed_event WHERE event_id = i.event_id OFFSET 0
    ) p
)
SELECT i.event_id,
       own.event_id IS NOT NULL OR EXISTS (SELECT FROM inbox b WHERE b.event_id = i.event_id AND NOT b.mine) AS seen,
       (own.event_id IS NULL
            OR (own.order_id, own.customer_id, own.amount_minor, own.currency) = (i.order_id, i.customer_id, i.amount_minor, i.currency))
       AND NOT EXISTS (SELECT FROM inbox b WHERE b.event_id = i.event_id AND NOT b.mine
                        AND get_byte(b.fingerprint, 0) = get_byte(i.fingerprint, 0) AND b.fingerprint <> i.fingerprint) AS seen_same,
       i.event_id < clock.oldest AS too_old, i.event_id >= clock.newest AS ahead,
       live.event_id AS live,
       coalesce((live.customer_id, live.amount_minor, live.currency) = (i.customer_id, i.amount_minor, i.currency), false) AS live_same,
       coalesce(live.status = 'requested', false) AS live_asked,
       EXISTS (SELECT FROM inbox b WHERE b.event_id = i.event_id AND b.mine) AS inbox_mine
  FROM clock, input i
  LEFT JOIN charge own ON own.event_id = i.event_id
  LEFT JOIN charge live ON live.order_id = i.order_id AND live.holds_order
