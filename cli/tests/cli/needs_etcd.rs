//! Parts as processes of their own, on a real etcd, while one after the other fails.

#[path = "needs_etcd/leaders.rs"]
mod leaders;
#[path = "needs_etcd/members.rs"]
mod members;
#[path = "needs_etcd/parts.rs"]
mod parts;
#[path = "needs_etcd/quorum.rs"]
mod quorum;
