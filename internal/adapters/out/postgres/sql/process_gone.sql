-- Forgets a process that stops. $1 id
DELETE FROM process WHERE id = $1
