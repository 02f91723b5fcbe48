-- The service's login has the rights of billing_app, which `billing migrate up` grants: no DDL, nothing that edits history.
CREATE ROLE billing_app NOLOGIN;
CREATE ROLE billing_service LOGIN PASSWORD 'billing-dev' IN ROLE billing_app;
