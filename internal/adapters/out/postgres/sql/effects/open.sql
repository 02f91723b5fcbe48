-- A place for the provider's list that only this session sees.
CREATE TEMPORARY TABLE audit_effect (
    n        bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    key      text   NOT NULL,
    ref      text   UNIQUE,
    status   text   NOT NULL,
    order_id text   NOT NULL,
    amount   bigint NOT NULL,
    currency text   NOT NULL,
    PRIMARY KEY (order_id, n),
    UNIQUE (key, n)
)
