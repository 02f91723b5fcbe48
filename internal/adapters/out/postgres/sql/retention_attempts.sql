-- $1 period in seconds $2 after, empty for the beginning $3 rows
SELECT purged, coalesce(next::text, '')
  FROM billing_purge_attempts(make_interval(secs => $1::float8), coalesce(nullif($2, ''), '00000000-0000-0000-0000-000000000000')::uuid, $3)
