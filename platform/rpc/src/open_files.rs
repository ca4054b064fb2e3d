//! The number of files that this process may have open.

use std::fs;

/// Reads the limit; `None` if the system does not tell.
pub(crate) fn limit() -> Option<u32> {
    of_limits(&fs::read_to_string("/proc/self/limits").ok()?)
}

fn of_limits(limits: &str) -> Option<u32> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_soft_limit_is_read() {
        let text = "Limit                     Soft Limit           Hard Limit           Units\n\
                    Max open files            4096                 524288               files\n";
        assert_eq!(of_limits(text), Some(4_096));
        assert_eq!(of_limits("Max open files  unlimited unlimited files"), None);
        assert!(limit().is_some());
    }
}
