//! A control plane whose disk has no room.

mod needs_root {
    use std::fs::File;
    use std::io::{ErrorKind, Write};
    use std::path::PathBuf;
    use std::process::Command;
    use std::time::Instant;

    use tempfile::TempDir;

    use crate::running::{LIMIT, Up};
    use crate::support::Sandbox;

    /// A disk of 24 MiB in memory; it is gone when dropped.
    struct SmallDisk(TempDir);

    impl SmallDisk {
        fn mount() -> Self {
            let folder = tempfile::tempdir().expect("a folder");
            let mut mount = Command::new("mount");
            mount.args(["-t", "tmpfs", "-o", "size=24m", "none"]).arg(folder.path());
            assert!(mount.status().expect("mount runs").success());
            Self(folder)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Writes a file until there is no room; returns whether there was some.
        fn fill(&self, name: &str) -> bool {
            let mut file = File::create(self.path(name)).expect("a file");
            let zeros = [0; 4096];
            let mut written = 0;
            loop {
                match file.write(&zeros) {
                    Ok(0) => return written > 0,
                    Ok(more) => written += more,
                    Err(error) if error.kind() == ErrorKind::StorageFull => return written > 0,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }

    impl Drop for SmallDisk {
        fn drop(&mut self) {
            // It may be busy for a moment longer.
            let _ = Command::new("umount").arg("--lazy").arg(self.0.path()).status();
        }
    }

    /// Forms groups until that is refused.
    fn form_until_refused(up: &Up) {
        for number in 0..200 {
            let group = |at| {
                let members = "[\"node001 HCA-1\", \"gpu042 HCA-1\"]";
                format!("{{\"name\": \"full/{number}-{at}\", \"members\": {members}}}\n")
            };
            up.sandbox.write("groups.jsonl", (0..200).map(group).collect::<String>());
            let formed = up.run(&["group", "form", "--groups", "groups.jsonl"]);
            if formed.code != 0 {
                assert!(formed.stderr.contains("no space"), "{formed:?}");
                return;
            }
        }
        panic!("40 000 groups have room on a full disk");
    }

    #[test]
    fn a_full_disk_refuses_additions_only_until_it_has_room() {
        let disk = SmallDisk::mount();
        let store = disk.path("records.redb").display().to_string();
        let mut up = Up::over(Sandbox::new(), &store);
        up.ok(&["group", "join", "kept", "--node", "node001"]);
        up.ok(&["group", "join", "kept", "--node", "gpu042"]);
        up.routed("kept", 2);
        assert!(disk.fill("filler"));
        form_until_refused(&up);
        // The room that the store gave away meanwhile is taken, too.
        let mut more = 0;
        while disk.fill(&format!("filler-{more}")) && more < 10 {
            more += 1;
        }
        form_until_refused(&up);
        assert!(up.child.try_wait().expect("it can be asked").is_none(), "it stays up");
        assert_eq!(up.json(&["group", "show", "kept"])["memberCount"], 2);
        up.ok(&["group", "leave", "kept", "--node", "gpu042"]);
        assert_eq!(up.json(&["group", "show", "kept"])["memberCount"], 1);
        // It has room again, and asks the store once a second.
        for entry in std::fs::read_dir(disk.0.path()).expect("a list").flatten() {
            if entry.file_name().to_string_lossy().starts_with("filler") {
                std::fs::remove_file(entry.path()).expect("it is there");
            }
        }
        let emptied = Instant::now();
        while up.run(&["group", "join", "kept", "--node", "gpu042"]).code != 0 {
            assert!(emptied.elapsed() < LIMIT, "it stays read-only");
        }
        up.routed("kept", 2);
    }
}
