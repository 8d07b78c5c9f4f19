//! The other engines' files on a server whose InnoDB is the stand-in.
//!
//! `mariadb-backup` cannot run there, because it needs InnoDB's own files. So this program copies
//! the files, into a stream that `mbstream` unpacks. They are equal to those at the point of
//! Sluice's part:
//!
//! 1. `BACKUP STAGE FLUSH` and `BLOCK_DDL`: tables that are not transactional, and definitions, no
//!    longer change. They are copied.
//! 2. `BACKUP STAGE BLOCK_COMMIT`: nothing changes. The schema `mysql` and the tables of Aria are
//!    copied. Aria's pages may still be in memory then, but its log is complete. So the log is
//!    copied before the tables. Aria recovers at the first start of the restored server.
use crate::backup::Shared;
use crate::other_engines::Position;
use crate::server::Session;
use crate::stream::REST;
use crate::{BackupArguments, Connection, Result};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Arc;
use std::thread::JoinHandle;

const CHUNK: usize = 256 << 10;
/// Files that are copied, by the ends of their names: definitions, MyISAM, Aria, MERGE, ARCHIVE,
/// CSV, triggers, partitions.
const ENDS: &[&str] = &[
    "frm", "par", "opt", "TRG", "TRN", "MYD", "MYI", "MAD", "MAI", "MRG", "ARZ", "ARM", "CSM", "CSV",
];
/// Those of Aria, which may change until commits are blocked.
const ENDS_OF_ARIA: &[&str] = &["MAD", "MAI"];
/// Its tables of logs and statistics may change until then, too.
const SYSTEM_SCHEMA: &str = "mysql";
/// The copy that an ALTER is making. With its definition the restored server would keep it.
const UNFINISHED: &str = "#sql";
const CONTROL: &str = "aria_log_control";
/// A checkpoint of Aria may come between the copies of its control file and of its log.
const TRIES_MAX: usize = 20;

/// The running copy.
pub struct PlainFiles {
    copy: JoinHandle<Result<Position>>,
    stopped: Arc<AtomicBool>,
}

impl PlainFiles {
    /// `failed` is called if the copy fails.
    pub fn start(arguments: &BackupArguments, out: Shared, failed: impl FnOnce() + Send + 'static) -> PlainFiles {
        let stopped = Arc::new(AtomicBool::new(false));
        let copy = Copy {
            connection: arguments.connection.clone(),
            galera_info: arguments.galera_info,
            out: Stream(out),
            stopped: stopped.clone(),
        };
        let copy = std::thread::spawn(move || {
            let copied = copy.run();
            if copied.is_err() {
                failed();
            }
            copied
        });
        PlainFiles { copy, stopped }
    }
    pub fn is_over(&self) -> bool {
        self.copy.is_finished()
    }
    pub fn abort(self) {
        self.stopped.store(true, Ordering::Relaxed);
        // The backup has failed for another reason.
        let _ = self.copy.join();
    }
    /// Waits for the end. Returns the position in the binary log.
    pub fn finish(self) -> Result<Position> {
        self.copy
            .join()
            .map_err(|_| "a thread of this program has panicked".to_string())?
    }
}

struct Copy {
    connection: Connection,
    galera_info: bool,
    out: Stream,
    stopped: Arc<AtomicBool>,
}

impl Copy {
    fn run(&self) -> Result<Position> {
        let mut session = Session::start(&self.connection)?;
        if self.galera_info {
            session.run("SET SESSION wsrep_sync_wait = 0")?;
        }
        let variables = "SELECT @@datadir, @@aria_log_dir_path, IFNULL(@@log_bin_basename, '')";
        let row = session.run(variables)?;
        let row: Vec<&str> = row.first().map(|row| row.split('\t').collect()).unwrap_or_default();
        let [data, aria, binary_log] = row[..] else {
            return Err("the server does not name its directories".into());
        };
        let (data, binary_log) = (PathBuf::from(data), PathBuf::from(binary_log));
        let aria = data.join(aria);
        session.run("BACKUP STAGE START")?;
        session.run("BACKUP STAGE FLUSH")?;
        session.run("BACKUP STAGE BLOCK_DDL")?;
        self.put_tables(&data, &|schema, end| {
            schema != SYSTEM_SCHEMA && !ENDS_OF_ARIA.contains(&end)
        })?;
        session.run("BACKUP STAGE BLOCK_COMMIT")?;
        self.put_aria_log(&aria)?;
        self.put_tables(&data, &|schema, end| {
            schema == SYSTEM_SCHEMA || ENDS_OF_ARIA.contains(&end)
        })?;
        let status = session.run("SHOW MASTER STATUS")?;
        let position = status.first().and_then(|row| {
            let mut columns = row.split('\t');
            Some((columns.next()?.to_string(), columns.next()?.parse().ok()?))
        });
        if self.galera_info {
            self.put_galera_info(&mut session, &position, &binary_log)?;
        }
        session.run("BACKUP STAGE END")?;
        Ok(position)
    }
    /// The files of the schemas' tables for which `wanted(schema, end of the name)` is true.
    fn put_tables(&self, data: &Path, wanted: &dyn Fn(&str, &str) -> bool) -> Result<()> {
        for schema in names(data)? {
            let folder = data.join(&schema);
            // Names with # are those of engines. A name with a dot is no schema's.
            if schema.starts_with('#') || schema.contains('.') || !folder.is_dir() || schema == "lost+found" {
                continue;
            }
            for name in names(&folder)? {
                let end = name.rsplit_once('.').map_or("", |(_, end)| end);
                if name.starts_with(UNFINISHED) {
                    continue;
                }
                if ENDS.contains(&end) && wanted(&schema, end) {
                    self.put_file(&folder.join(&name), &format!("{schema}/{name}"))?;
                }
            }
        }
        Ok(())
    }
    /// The control file names the place in the log from which Aria recovers. So both are read
    /// again if a checkpoint has changed the control file meanwhile.
    fn put_aria_log(&self, folder: &Path) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let control = read(&folder.join(CONTROL))?;
            let mut logs = Vec::new();
            for name in names(folder)? {
                let number = name.strip_prefix("aria_log.");
                if number.is_some_and(|number| number.bytes().all(|b| b.is_ascii_digit())) {
                    match read(&folder.join(&name)) {
                        Ok(bytes) => logs.push((name, bytes)),
                        // Aria has removed it after a checkpoint.
                        Err(_) if !folder.join(&name).exists() => {}
                        Err(why) => return Err(why),
                    }
                }
            }
            if read(&folder.join(CONTROL))? == control {
                self.out.put_bytes(CONTROL, &control)?;
                return logs
                    .iter()
                    .try_for_each(|(name, bytes)| self.out.put_bytes(name, bytes));
            }
        }
        Err(format!(
            "{}: Aria's checkpoints are too frequent for a copy",
            folder.display()
        ))
    }
    /// What a joining node looks for: see `sst::place`.
    fn put_galera_info(&self, session: &mut Session, position: &Position, binary_log: &Path) -> Result<()> {
        let status = session.run(
            "SELECT VARIABLE_VALUE FROM information_schema.GLOBAL_STATUS WHERE VARIABLE_NAME IN ('wsrep_local_state_uuid', \
             'wsrep_last_committed') ORDER BY VARIABLE_NAME DESC",
        )?;
        if let [uuid, number] = &status[..] {
            self.out
                .put_bytes("xtrabackup_galera_info", format!("{uuid}:{number}").as_bytes())?;
        }
        if let Some((name, at)) = position {
            let line = format!("{name}\t{at}\n");
            self.out.put_bytes("xtrabackup_binlog_info", line.as_bytes())?;
            self.put_file(&binary_log.with_file_name(name), name)?;
        }
        Ok(())
    }
    fn put_file(&self, path: &Path, name: &str) -> Result<()> {
        let mut file = match File::open(path) {
            Ok(file) => file,
            // A temporary table of an ALTER that has ended.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(()),
            Err(e) => return Err(format!("{}: {e}", path.display())),
        };
        let mut chunk = vec![0; CHUNK];
        let mut at = 0;
        loop {
            if self.stopped.load(Ordering::Relaxed) {
                return Err("the backup has failed".into());
            }
            let n = file.read(&mut chunk).map_err(|e| format!("{}: {e}", path.display()))?;
            if n == 0 {
                return self.out.end(name);
            }
            self.out.put_chunk(name, at, &chunk[..n])?;
            at += n as u64;
        }
    }
}

fn names(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    let names = entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned());
    Ok(names.collect())
}

fn read(path: &Path) -> Result<Vec<u8>> {
    std::fs::read(path).map_err(|e| format!("{}: {e}", path.display()))
}

/// Chunks as `mbstream` reads them. Integers are little-endian.
///
/// ```text
/// "XBSTCK01"  flags u8 = 0  kind u8  length of the name u32  name
/// kind 'P'    then length u64, offset in the file u64, CRC-32 u32, bytes
/// kind 'E'    then nothing: the end of the file
/// ```
struct Stream(Shared);

impl Stream {
    fn put_bytes(&self, name: &str, bytes: &[u8]) -> Result<()> {
        for (number, chunk) in bytes.chunks(CHUNK).enumerate() {
            self.put_chunk(name, (number * CHUNK) as u64, chunk)?;
        }
        self.end(name)
    }
    fn put_chunk(&self, name: &str, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut chunk = head(b'P', name);
        chunk.extend((bytes.len() as u64).to_le_bytes());
        chunk.extend(offset.to_le_bytes());
        chunk.extend(crc32fast::hash(bytes).to_le_bytes());
        chunk.extend(bytes);
        self.0.put(REST, &chunk)
    }
    fn end(&self, name: &str) -> Result<()> {
        self.0.put(REST, &head(b'E', name))
    }
}

fn head(kind: u8, name: &str) -> Vec<u8> {
    let mut head = b"XBSTCK01\0".to_vec();
    head.push(kind);
    head.extend((name.len() as u32).to_le_bytes());
    head.extend(name.as_bytes());
    head
}
