-- Takes an expired key over. Of several at once the first wins, and the others find it alive again.
-- $1 client $2 key $3 request hash $4 event id $5 status $6 location $7 body $8 seconds to live
UPDATE idempotency_key
   SET request_hash = $3, event_id = $4, response_status = $5, location = $6, response_body = $7, created_at = clock_timestamp(),
       expires_at = clock_timestamp() + make_interval(secs => $8::float8)
 WHERE client = $1 AND key = $2 AND expires_at <= clock_timestamp()
