SELECT coalesce(max(version_id) FILTER (WHERE is_applied), 0) FROM goose_db_version
