//! The answers of planning before anything runs: how large tables must be, why a group shares its
//! tree, which engine is the better one.

mod advice;
mod capacity;
mod explain;
mod fabric;
