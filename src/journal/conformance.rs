//! The suite that every journal must pass.
