//! Recordings in parts: the one in memory, and files of the folder.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{Read as _, Take};
use std::path::{Path, PathBuf};
use std::pin::Pin;

use fabricast_proto::v1::DownloadRecordingResponse;
use fabricast_reconciler::SegmentName;
use fabricast_rpc::CallCost;
use tokio::sync::mpsc;
use tokio_stream::Stream;
use tokio_stream::wrappers::ReceiverStream;
use tonic::Status;

/// Most bytes of a part.
const PART: u32 = 1 << 20;
/// Parts that wait for a slow reader.
const PARTS_AHEAD: usize = 2;

/// Stream of the parts of a recording.
pub(super) type Parts =
    Pin<Box<dyn Stream<Item = Result<DownloadRecordingResponse, Status>> + Send>>;

/// Files that are read one after the other, each as long as it was when it was opened.
struct FileReader {
    waiting: VecDeque<PathBuf>,
    open: Option<OpenFile>,
}

struct OpenFile {
    name: String,
    rest: Take<File>,
}

/// Cuts a file into parts.
pub(super) fn of_bytes(file: &[u8]) -> Parts {
    let parts: Vec<_> = file.chunks(PART as usize).map(<[u8]>::to_vec).collect();
    let response = |part| Ok(DownloadRecordingResponse { part, file: String::new() });
    Box::pin(tokio_stream::iter(parts.into_iter().map(response)))
}

/// Reads the files of a folder, as fast as they are taken and in the turns of the client; without a
/// folder there are none.
pub(super) fn of_folder(folder: Option<PathBuf>) -> Parts {
    let (to, parts) = mpsc::channel(PARTS_AHEAD);
    let cost = CallCost::current();
    tokio::spawn(async move {
        let Some(folder) = folder else { return };
        let listed = cost.turn().await.run(move || FileReader::of(&folder));
        let Ok(mut reader) = listed.await else { return };
        loop {
            let read = cost.turn().await.run(move || {
                let part = reader.next_part();
                (reader, part)
            });
            let Ok((next, Some(part))) = read.await else { return };
            reader = next;
            if to.send(Ok(part)).await.is_err() {
                return;
            }
        }
    });
    Box::pin(ReceiverStream::new(parts))
}

impl FileReader {
    /// Lists the files of recordings, topologies first: those of segments that are deleted
    /// meanwhile would be missed by others. Other files stay here, as does the target of a link.
    fn of(folder: &Path) -> Self {
        let (mut topologies, mut segments) = (Vec::new(), Vec::new());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let Some(name) = name.to_str() else { continue };
            if !entry.file_type().is_ok_and(|kind| kind.is_file()) {
                continue;
            }
            if SegmentName::parse_topology(name).is_some() {
                topologies.push(path);
            } else if let Some(name) = SegmentName::parse(name) {
                segments.push((name, path));
            }
        }
        segments.sort();
        let segments = segments.into_iter().map(|(_, path)| path);
        Self { waiting: topologies.into_iter().chain(segments).collect(), open: None }
    }

    fn next_part(&mut self) -> Option<DownloadRecordingResponse> {
        loop {
            let Some(open) = &mut self.open else {
                self.open = open(&self.waiting.pop_front()?);
                continue;
            };
            let mut part = Vec::new();
            // A file that cannot be read on ends here, as one whose writer was killed.
            let _ = open.rest.by_ref().take(PART.into()).read_to_end(&mut part);
            if !part.is_empty() {
                return Some(DownloadRecordingResponse { part, file: open.name.clone() });
            }
            self.open = None;
        }
    }
}

/// Opens a file; `None` if it was deleted meanwhile.
fn open(path: &Path) -> Option<OpenFile> {
    let name = path.file_name()?.to_str()?.to_owned();
    let file = File::open(path).ok()?;
    let length = file.metadata().ok()?.len();
    Some(OpenFile { name, rest: file.take(length) })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tokio_stream::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn files_come_one_after_the_other_and_others_stay() {
        let folder = tempfile::tempdir().expect("a folder");
        let [first, second] = [1, 2].map(|number| SegmentName { number, topology: 3 });
        let long = vec![7; PART as usize + 5];
        let written = [
            (first.topology_file(), b"topology".to_vec()),
            (first.file(), long),
            (second.file(), Vec::new()),
            ("tls.key".to_owned(), b"secret".to_vec()),
        ];
        for (name, bytes) in &written {
            fs::write(folder.path().join(name), bytes).expect("it can be written");
        }
        let third = folder.path().join(SegmentName { number: 3, topology: 3 }.file());
        symlink(folder.path().join("tls.key"), third).expect("a link");
        let parts = of_folder(Some(folder.path().to_owned()));
        let parts: Vec<_> = parts.map(|part| part.expect("no error")).collect().await;
        let found: Vec<(&str, usize)> =
            parts.iter().map(|part| (part.file.as_str(), part.part.len())).collect();
        let (segment, topology) = (first.file(), first.topology_file());
        assert_eq!(found, [(&*topology, 8), (&*segment, PART as usize), (&*segment, 5)]);
        assert!(of_folder(None).next().await.is_none());
        assert!(of_folder(Some(folder.path().join("absent"))).next().await.is_none());
    }
}
