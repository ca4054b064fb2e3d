//! Tests of files in memory, and of folders and files that cannot be used.

use super::*;
use std::os::unix::fs::{PermissionsExt as _, symlink};

use tempfile::TempDir;

const HALF: u64 = 1 << 16;

/// A folder of its own in memory.
fn in_memory() -> TempDir {
    TempDir::new_in("/dev/shm").expect("/dev/shm is where Linux keeps shared memory")
}

fn folder(of: &TempDir) -> Folder {
    Folder::new(of.path(), Path::new("/run/agent.sock"), HALF)
}

fn entries(of: &TempDir) -> usize {
    fs::read_dir(of.path()).map_or(0, Iterator::count)
}

#[test]
fn each_side_reads_what_the_other_wrote_and_no_name_is_left() {
    let place = in_memory();
    let named = folder(&place).create(None).unwrap();
    assert_eq!(fs::metadata(named.path()).unwrap().permissions().mode() & 0o777, 0o600);
    let theirs = open(named.path(), named.identity(), HALF).unwrap();
    let ours = named.forget_name();
    assert_eq!(entries(&place), 0, "nobody can open it any more");
    theirs.write(10, b"up").unwrap();
    ours.write(HALF, b"down").unwrap();
    assert_eq!(ours.read(Range { offset: 10, length: 2 }).unwrap(), b"up");
    assert_eq!(theirs.read(Range { offset: HALF, length: 4 }).unwrap(), b"down");
}

#[test]
fn a_peer_that_never_opens_leaves_no_name() {
    let place = in_memory();
    drop(folder(&place).create(None).unwrap());
    assert_eq!(entries(&place), 0);
}

#[test]
fn a_file_other_than_the_created_one_is_refused() {
    let place = in_memory();
    let named = folder(&place).create(None).unwrap();
    let other = place.path().join("other");
    fs::write(&other, "mine").unwrap();
    let refused = open(&other, named.identity(), HALF).unwrap_err();
    assert!(matches!(refused, MemoryError::AnotherFile { .. }), "{refused}");
    let link = place.path().join("link");
    symlink(named.path(), &link).unwrap();
    let refused = open(&link, named.identity(), HALF).unwrap_err();
    assert!(matches!(refused, MemoryError::System { .. }), "a link is not followed: {refused}");
}

#[test]
fn a_file_shortened_by_the_peer_ends_a_read_and_nothing_else() {
    let place = in_memory();
    let named = folder(&place).create(None).unwrap();
    File::options().write(true).open(named.path()).unwrap().set_len(5).unwrap();
    let memory = named.forget_name();
    let ended = memory.read(Range { offset: 0, length: 6 }).unwrap_err();
    assert_eq!(ended.kind(), io::ErrorKind::UnexpectedEof);
    memory.write(HALF, b"still there").unwrap();
}

#[test]
fn a_folder_that_is_missing_or_on_a_disk_is_an_error() {
    let place = in_memory();
    let missing = Folder::new(&place.path().join("no"), Path::new("/s"), HALF).create(None);
    assert!(matches!(missing, Err(MemoryError::System { .. })), "{missing:?}");
    let disk = TempDir::new_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let slow = Folder::new(disk.path(), Path::new("/s"), HALF).create(None);
    if let Err(error) = slow {
        // No error if the source tree itself is in memory.
        assert!(matches!(error, MemoryError::NotInMemory { .. }), "{error}");
    }
    assert_eq!(entries(&disk), 0, "the file is removed again");
}

#[test]
fn files_of_a_killed_agent_are_swept_by_the_next_at_its_socket() {
    let place = in_memory();
    let left = folder(&place).create(None).unwrap();
    let path = left.path().to_owned();
    std::mem::forget(left); // as by kill -9
    let foreign = place.path().join("fabricast.run.agent.sock.notes");
    fs::write(&foreign, "no random number").unwrap();
    let other = Folder::new(place.path(), Path::new("/run/agent.sock2"), HALF);
    assert_eq!(other.sweep(), 0, "of another agent");
    assert_eq!(folder(&place).sweep(), 1);
    assert!(!path.exists() && foreign.exists());
}
