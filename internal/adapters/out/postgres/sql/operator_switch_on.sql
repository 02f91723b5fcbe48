-- Turns a switch on and says so; one that is on stays as it is. $1 name $2 actor $3 reason $4 action
WITH turned AS (
    INSERT INTO control (name, actor, reason) VALUES ($1, $2, $3) ON CONFLICT (name) DO NOTHING RETURNING name
), noted AS (
    INSERT INTO operator_action (action, target, actor, reason) SELECT $4, name, $2, $3 FROM turned
)
SELECT count(*) > 0 FROM turned
