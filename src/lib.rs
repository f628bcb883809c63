//! samekey
