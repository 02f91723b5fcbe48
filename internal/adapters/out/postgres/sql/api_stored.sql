-- $1 client $2 key
SELECT request_hash, response_status, location, response_body, expires_at <= clock_timestamp()
  FROM idempotency_key WHERE client = $1 AND key = $2
