-- R23: an announcement that was published is on the topic, for as long as that is whole. What was published after the
-- reading began cannot be expected there.
-- $1 after $2 to $3 since when the topic is whole $4 when the reading began
SELECT e.event_id::text, format('%s, version %s, was published at %s and is not on the topic', e.type, e.version, e.published_at)
  FROM charge_event e
 WHERE e.id > $1::text::bigint AND e.id <= $2::text::bigint AND e.version IS NOT NULL
   AND e.published_at >= $3::timestamptz AND e.published_at < $4::timestamptz
   AND (SELECT count(*) FROM audit_result r WHERE r.id = e.announcement_id::text) = 0
