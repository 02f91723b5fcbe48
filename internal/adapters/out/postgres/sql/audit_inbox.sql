-- R8: an event in the inbox is a charge, or the duplicate of one that exists, and not both.
-- $1 after $2 to $3 grace in seconds
SELECT f.event_id::text,
       CASE WHEN f.duplicate_of IS NULL THEN 'counted as handled, and is no charge: the order is lost'
            WHEN NOT f.named THEN format('duplicate of %s, which does not exist', f.duplicate_of)
            ELSE format('duplicate of %s, and charged itself', f.duplicate_of) END
  FROM (SELECT p.event_id, p.duplicate_of,
               (SELECT count(*) FROM charge c WHERE c.event_id = p.event_id) > 0 AS charged,
               (SELECT count(*) FROM charge c WHERE c.event_id = p.duplicate_of) > 0 AS named
          FROM processed_event p
         WHERE p.event_id > $1::text::uuid AND p.event_id <= $2::text::uuid
           AND p.processed_at < now() - make_interval(secs => $3::float8)) f
 WHERE CASE WHEN f.duplicate_of IS NULL THEN NOT f.charged ELSE f.charged OR NOT f.named END
