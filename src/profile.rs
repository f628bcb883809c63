//! How one provider speaks the contract.

/// Placeholder.
#[derive(Clone, Debug)]
pub struct Profile {}
