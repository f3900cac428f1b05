-- A counted repetition makes PostgreSQL walk through as many states of the expression, for each row that is written: a
-- fifteenth of what the ledger cost. What is there was checked by then.
alter table deliveries drop constraint deliveries_idempotency_key_check;
alter table deliveries add constraint deliveries_idempotency_key_check
  check (length(idempotency_key) between 1 and 64 and idempotency_key !~ '[^!-~]') not valid;

alter table users drop constraint users_receiver_key_check;
alter table users add constraint users_receiver_key_check
  check (length(receiver_key) between 1 and 50 and receiver_key !~ '[^!-~]') not valid;
