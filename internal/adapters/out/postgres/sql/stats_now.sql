-- The database's clock, and what shows without an audit.
SELECT clock_timestamp(), (SELECT count(*) FROM consumer_position WHERE gap IS NOT NULL AND NOT gap_accepted),
       (SELECT count(*) FROM consumer_position WHERE halted IS NOT NULL AND gap IS NULL)
