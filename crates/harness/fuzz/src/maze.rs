//! A maze that only somebody who sees how far it went gets through: it shows that a campaign is guided.

use crate::{Broken, Check, Ended, Target, campaign};

/// Five doors, one behind the other. Nothing that comes back tells how many were open.
fn doors(input: &[u8]) -> Check {
    let open = |at: usize, byte: u8| input.get(at) == Some(&byte);
    if !open(0, b's') {
        return Ok(0);
    }
    if !open(1, b'k') {
        return Ok(0);
    }
    if !open(2, b'e') {
        return Ok(0);
    }
    if !open(3, b'y') {
        return Ok(0);
    }
    if !open(4, b'!') {
        return Ok(0);
    }
    Err("nobody gets through".to_owned())
}

/// Looks for the way through, for so many inputs at most.
///
/// # Errors
/// The way, if it was found.
pub fn walk(most: u64) -> Result<Ended, Broken> {
    let maze = Target {
        name: "maze",
        check: doors,
        planted: &[],
        words: &[],
        made: Vec::new,
    };
    campaign(maze, doors, Vec::new(), 1, |runs| runs < most)
}
