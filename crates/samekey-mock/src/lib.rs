//! The server half of the idempotency-key contract, with every fault.
