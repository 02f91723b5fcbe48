SELECT name, actor, reason, set_at FROM control ORDER BY name
