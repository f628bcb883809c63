//! placeholder
/// p
#[derive(Debug)]
pub struct SqliteJournal;
/// p
#[derive(Debug)]
pub struct SqliteOptions;
