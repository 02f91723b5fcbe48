-- $1 action $2 target $3 actor $4 reason
INSERT INTO operator_action (action, target, actor, reason) VALUES ($1, $2, $3, $4)
