-- Orders an announcement to be published again, and writes down who wanted it.
-- $1 type $2 topic $3 key $4 value $5 headers $6 event id $7 version $8 actor $9 reason
WITH noted AS (
    INSERT INTO operator_action (action, target, actor, reason) VALUES ('charges republish', $6::uuid || ' version ' || $7::int, $8, $9)
)
INSERT INTO outbox (channel, event_type, topic, msg_key, payload, headers, event_id, version)
VALUES ('kafka', $1, $2, $3, $4, $5, $6, $7)
