-- What came from the producer. $1 id
SELECT key, value, headers FROM dead_letter WHERE id = $1
