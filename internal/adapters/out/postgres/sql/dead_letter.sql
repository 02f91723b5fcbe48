-- Keeps a refused message with its bytes and orders its copy on Kafka. The same message again writes nothing.
-- $1 group $2 topic $3 partition $4 offset $5 message time $6 key $7 value $8 headers $9 reason $10 detail
-- $11 event id $12 copy topic $13 copy key $14 copy value $15 copy headers $16 masked
WITH letter AS (
    INSERT INTO dead_letter (consumer_group, topic, partition, "offset", message_time, key, value, headers, reason, detail, event_id, masked)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $16)
    ON CONFLICT (consumer_group, topic, partition, "offset", message_time) DO NOTHING
    RETURNING id
)
INSERT INTO outbox (channel, event_type, topic, msg_key, payload, headers, event_id, dead_letter_id)
SELECT 'kafka', 'DeadLetter', $12::text, $13::bytea, $14::bytea, $15::bytea[], $11::uuid, id FROM letter
