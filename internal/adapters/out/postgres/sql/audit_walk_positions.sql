-- Positions are few: one page has them all, whatever its size. $1 after $2 rows
SELECT max($1::text), least(count(*), $2::bigint - 1) FROM consumer_position
