-- A place for the topic of results that only this session sees.
CREATE TEMPORARY TABLE audit_result (
    n         bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    place     text   NOT NULL,
    id        text   NOT NULL,
    type      text   NOT NULL,
    source    uuid,
    order_id  text   NOT NULL,
    customer  text   NOT NULL,
    amount    bigint NOT NULL,
    currency  text   NOT NULL,
    version   integer NOT NULL,
    fault     text   NOT NULL,
    PRIMARY KEY (id, n)
)
