//! Native programs: the system clock, the system's randomness, reqwest.
