-- Turns a switch off and says so. $1 name $2 actor $3 reason $4 action
WITH turned AS (
    DELETE FROM control WHERE name = $1 RETURNING name
), noted AS (
    INSERT INTO operator_action (action, target, actor, reason) SELECT $4, name, $2, $3 FROM turned
)
SELECT count(*) > 0 FROM turned
