-- A hash over the catalogue rows of everything that is not built in (oid >= 16384). A clone has the template's rows at the
-- template's places, so place and age (ctid, xmin) tell a changed row without reading it. pg_class is read by column, because
-- TRUNCATE and ANALYZE rewrite its rows.
SELECT md5(string_agg(part, ' '))
  FROM (
    SELECT sum(hashtextextended(concat_ws(' ', oid, relname, relowner, relkind, relpersistence, reloptions, relpartbound, relacl), 0))::text AS part
      FROM pg_class WHERE oid >= 16384 AND relpersistence <> 't' AND relkind <> 't' AND relnamespace <> 'pg_toast'::regnamespace
    UNION ALL SELECT 'columns ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_attribute WHERE attrelid >= 16384
    UNION ALL SELECT 'defaults ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_attrdef
    UNION ALL SELECT 'indexes ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_index WHERE indexrelid >= 16384
    UNION ALL SELECT 'constraints ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_constraint WHERE oid >= 16384
    UNION ALL SELECT 'partitions ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_inherits
    UNION ALL SELECT 'triggers ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_trigger
    UNION ALL SELECT 'functions ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_proc WHERE oid >= 16384
    UNION ALL SELECT 'views ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_rewrite WHERE oid >= 16384
    UNION ALL SELECT 'sequences ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_sequence
    UNION ALL SELECT 'schemas ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_namespace WHERE nspname !~ '^pg_'
    UNION ALL SELECT 'policies ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_policy
    UNION ALL SELECT 'enums ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_enum
    UNION ALL SELECT 'extensions ' || sum(hashtextextended(concat_ws(' ', ctid, xmin), 0)) FROM pg_extension
    UNION ALL SELECT 'settings ' || count(*) FROM pg_db_role_setting WHERE setdatabase = (SELECT oid FROM pg_database WHERE datname = current_database())
  ) AS parts
