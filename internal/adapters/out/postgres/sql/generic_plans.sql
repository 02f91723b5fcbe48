-- Lets the statements after it in the same transaction keep one plan for all values: planning one of them again for each batch
-- takes as long as running it. They probe indexes and join nothing else, and without sequential scans a plan that was made
-- while the tables were empty is the right one for ever.
SELECT set_config('plan_cache_mode', 'force_generic_plan', true), set_config('enable_seqscan', 'off', true)
