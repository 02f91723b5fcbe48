-- Orders the publication of one message.
-- $1 event type $2 topic $3 key $4 value $5 headers $6 event id $7 delay in seconds
INSERT INTO outbox (channel, event_type, topic, msg_key, payload, headers, event_id, run_at)
VALUES ('kafka', $1, $2, $3, $4, $5, $6, clock_timestamp() + make_interval(secs => $7::float8))
