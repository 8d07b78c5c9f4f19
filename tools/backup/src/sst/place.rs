//! From the restored files to the data directory.
//!
//! - **T1** The old files stay until the new ones are complete and checked. So a transfer that
//!   fails before has changed nothing.
//! - **T2** From the first change of the data directory to the last one, Sluice's files there say
//!   that the node's position is unknown. A start after a crash in between then asks for a full
//!   transfer. It never takes half of the files for a state.
//!
//! The steps: one system call exchanges the old and the new directory of Sluice. The other old
//! files are removed. The binary logs and the files of the other engines are moved in. Last, the
//! position is stored in Sluice's files.
use super::options::Options;
use super::{log, position, watch};
use crate::other_engines::{ends_with_us, last_lines};
use crate::target::{sync_file_system, sync_names};
use crate::{RestoreArguments, Result};
use std::ffi::CString;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

pub const SLUICE: &str = "#sluice";
/// Where the new files are until they are checked.
const UNFINISHED: &str = ".sst";
/// The server's start scripts look for this file.
const IN_PROGRESS: &str = "sst_in_progress";

/// Directories of other engines outside the data directory: the option that names the directory,
/// and the beginnings of their files' names.
const DIRECTORIES: &[(&str, &[&str])] = &[
    ("innodb-data-home-dir", &["ibdata", "ibtmp"]),
    ("innodb-log-group-home-dir", &["ib_logfile"]),
    ("innodb-undo-directory", &["undo0", "undo1"]),
    ("aria-log-dir-path", &["aria_log"]),
];
/// More options for `mariadb-backup --move-back`.
const MORE_OPTIONS: &[&str] = &["innodb-data-file-path"];

/// Old files that remain in the data directory: of Galera, of the running server, of the operating
/// system.
const KEPT: &[&str] = &[
    "galera.cache",
    "grastate.dat",
    "gvwstate.dat",
    IN_PROGRESS,
    UNFINISHED,
    SLUICE,
    "RPM_UPGRADE_MARKER",
    "RPM_UPGRADE_HISTORY",
    "lost+found",
    ".zfs",
    ".snapshot",
    ".fseventsd",
    ".Trashes",
];
const KEPT_BEGINNINGS: &[&str] = &["gcache.page.", "debian-"];
const KEPT_ENDS: &[&str] = &[".pem", ".err", ".log", ".pid", ".sock", ".socket", ".cnf"];
/// Logs that are data: of commits over two engines, and of unfinished DDL.
const DATA_LOGS: &[&str] = &["tc.log", "ddl_recovery"];
/// Files that describe the backup. The server does not use them.
const ABOUT_BACKUP: &[&str] = &[
    "xtrabackup_galera_info",
    "xtrabackup_galera_info_SST",
    "donor_galera_info",
    "xtrabackup_info",
    "mariadb_backup_info",
    "xtrabackup_binlog_pos_innodb",
];

fn is_kept(name: &str) -> bool {
    let is_log_of_data = DATA_LOGS.iter().any(|data| name.starts_with(data));
    KEPT.contains(&name)
        || KEPT_BEGINNINGS.iter().any(|beginning| name.starts_with(beginning))
        || (KEPT_ENDS.iter().any(|end| name.ends_with(end)) && !is_log_of_data)
}

/// Lines `complete` for the server.
pub struct Progress {
    bytes: u64,
    next: Instant,
}

impl Default for Progress {
    fn default() -> Progress {
        let next = Instant::now();
        Progress { bytes: 0, next }
    }
}

impl Progress {
    pub fn pass(&mut self, bytes: u64) {
        self.bytes += bytes;
        if Instant::now() >= self.next {
            self.next = Instant::now() + Duration::from_secs(1);
            // If the server has ended, `watch` ends this program.
            let _ = super::tell_server(&format!("complete {}", self.bytes));
        }
    }
}

/// A file for the server's start scripts; a drop removes it.
pub struct InProgress(PathBuf);

impl Drop for InProgress {
    fn drop(&mut self) {
        // A file that stays makes a start script wait a little longer.
        let _ = fs::remove_file(&self.0);
    }
}

/// The joiner's directories.
pub struct Place {
    data: PathBuf,
    /// The new files, until they are checked.
    pub restored: PathBuf,
    /// Options for the directories of the other engines.
    elsewhere: Vec<(String, PathBuf)>,
    /// The server's directory for temporary files.
    temporary: Option<PathBuf>,
    more_options: Vec<String>,
    defaults: Vec<String>,
    binlog: Option<Binlog>,
}

/// The joiner's binary log.
struct Binlog {
    directory: PathBuf,
    /// The directory as it stands in the index.
    named: String,
    base: String,
    index: PathBuf,
}

impl Place {
    /// Refuses directories that could not be replaced at the end.
    pub fn find(options: &Options) -> Result<Place> {
        let data = fs::canonicalize(&options.data).map_err(|e| format!("{}: {e}", options.data.display()))?;
        let sluice = data.join(SLUICE);
        if let Some(other) = options.of_server("sluice-directory") {
            if !other.is_empty() && data.join(other.trim_start_matches("./")) != sluice {
                return Err(format!(
                    "sluice_directory={other}: wsrep_sst_method=sluice puts the files into {}, and nowhere else: take the option \
                     away",
                    sluice.display()
                ));
            }
        }
        let there = fs::symlink_metadata(&sluice).ok();
        let device = |path: &Path| fs::metadata(path).map(|about| about.dev()).ok();
        if there.is_some_and(|about| about.file_type().is_symlink())
            || (sluice.exists() && device(&sluice) != device(&data))
        {
            return Err(format!(
                "{} is a link or another file system, and wsrep_sst_method=sluice puts a new directory there: use \
                 wsrep_sst_method=rsync",
                sluice.display()
            ));
        }
        let mut elsewhere = Vec::new();
        for (option, _) in DIRECTORIES {
            let named = options.of_server(option).map(PathBuf::from);
            let variable = || {
                (*option == "innodb-data-home-dir").then(|| std::env::var_os("INNODB_DATA_HOME_DIR").map(PathBuf::from))
            };
            let named = named.or_else(|| variable().flatten());
            if let Some(path) = named.filter(|path| !path.as_os_str().is_empty()) {
                elsewhere.push((option.to_string(), data.join(path)));
            }
        }
        let more_options = MORE_OPTIONS
            .iter()
            .filter_map(|name| options.of_server(name).map(|value| format!("--{name}={value}")))
            .collect();
        Ok(Place {
            restored: data.join(UNFINISHED),
            elsewhere,
            temporary: options.of_server("tmpdir").map(|path| data.join(path)),
            more_options,
            defaults: options.defaults(),
            binlog: options
                .binlog
                .as_deref()
                .map(|name| Binlog::find(&data, name, options.binlog_index.as_deref())),
            data,
        })
    }
    /// Removes the files of an earlier transfer.
    pub fn remove_unfinished(&self) -> Result<()> {
        remove(&self.restored)
    }
    pub fn note_progress(&self) -> InProgress {
        let path = self.data.join(IN_PROGRESS);
        let _ = fs::File::create(&path);
        let _ = watch::IN_PROGRESS.set(path.clone());
        InProgress(path)
    }
    /// Puts the restored files into the data directory. `stored`: the position that they get last.
    pub fn take(&self, arguments: &RestoreArguments, has_innodb: bool, stored: &[u8]) -> Result<()> {
        let sluice = self.data.join(SLUICE);
        let began = Instant::now();
        exchange(&self.restored.join(SLUICE), &sluice)?;
        sync_names(&sluice)?;
        self.remove_old()?;
        self.take_binlogs()?;
        for name in ABOUT_BACKUP {
            remove(&self.restored.join(name))?;
        }
        match has_innodb {
            true => self.move_back(arguments)?,
            false => self.move_plain_files()?,
        }
        // T2 holds for a power failure, too: no file is lost that the position counts on.
        let elsewhere = self.elsewhere.iter().map(|(_, directory)| directory);
        let binlogs = self.binlog.iter().map(|binlog| &binlog.directory);
        for directory in [&self.data].into_iter().chain(elsewhere).chain(binlogs) {
            if directory.exists() {
                sync_file_system(directory)?;
            }
        }
        position::mark_clean(arguments, &sluice, stored)?;
        // The rest is not needed, so an error is ignored.
        let _ = remove(&self.restored);
        sync_names(&sluice)?;
        log(
            "INFO",
            &format!("the old files were replaced in {:.1} s", began.elapsed().as_secs_f64()),
        );
        Ok(())
    }
    fn remove_old(&self) -> Result<()> {
        // After the exchange, this is the old directory.
        remove(&self.restored.join(SLUICE))?;
        if let Some(binlog) = &self.binlog {
            binlog.remove(&self.data)?;
        }
        for (option, directory) in &self.elsewhere {
            let kinds = DIRECTORIES
                .iter()
                .find(|(name, _)| name == option)
                .map_or(&[][..], |(_, kinds)| *kinds);
            for name in names(directory) {
                if kinds.iter().any(|kind| name.starts_with(kind)) {
                    remove(&directory.join(name))?;
                }
            }
        }
        for name in names(&self.data) {
            let path = self.data.join(&name);
            let elsewhere = self.elsewhere.iter().map(|(_, directory)| directory);
            let binlogs = self.binlog.iter().map(|binlog| &binlog.directory);
            let mut used = elsewhere.chain(binlogs).chain(&self.temporary);
            if !is_kept(&name) && !used.any(|directory| directory.starts_with(&path)) {
                remove(&path)?;
            }
        }
        Ok(())
    }
    /// Moves the donor's newest binary log in, so that the numbers of GTIDs go on.
    fn take_binlogs(&self) -> Result<()> {
        let list = self.restored.join("xtrabackup_binlog_info");
        let text = fs::read_to_string(&list).unwrap_or_default();
        let mut index = String::new();
        for name in text.lines().filter_map(|line| line.split('\t').next()) {
            let from = self.restored.join(name);
            if name.contains('/') || !from.is_file() {
                continue;
            }
            match &self.binlog {
                Some(binlog) => {
                    move_file(&from, &binlog.directory.join(name))?;
                    index += &format!("{}/{name}\n", binlog.named);
                }
                None => remove(&from)?,
            }
        }
        match &self.binlog {
            Some(binlog) if !index.is_empty() => {
                fs::write(&binlog.index, index).map_err(|e| format!("{}: {e}", binlog.index.display()))?;
                sync_names(&binlog.index)
            }
            _ => Ok(()),
        }
    }
    /// Moves the other engines' files: schemas, and Aria's log.
    fn move_plain_files(&self) -> Result<()> {
        remove(&self.restored.join("xtrabackup_binlog_info"))?;
        let of_aria = self.elsewhere.iter().find(|(option, _)| option == "aria-log-dir-path");
        for name in names(&self.restored) {
            let from = self.restored.join(&name);
            if from.is_dir() {
                let folder = self.data.join(&name);
                fs::create_dir_all(&folder).map_err(|e| format!("{}: {e}", folder.display()))?;
                for file in names(&from) {
                    move_file(&from.join(&file), &folder.join(&file))?;
                }
                sync_names(&folder.join(&name))?;
            } else {
                let folder = of_aria.filter(|_| name.starts_with("aria_log"));
                move_file(&from, &folder.map_or(&self.data, |(_, folder)| folder).join(&name))?;
            }
        }
        Ok(())
    }
    /// Moves the other engines' files: `mariadb-backup` knows where each belongs.
    fn move_back(&self, arguments: &RestoreArguments) -> Result<()> {
        let program = arguments.mariadb_backup.display();
        let mut command = Command::new(&arguments.mariadb_backup);
        command
            .args(&self.defaults)
            .args(["--move-back", "--force-non-empty-directories"])
            .arg(format!("--target-dir={}", self.restored.display()))
            .arg(format!("--datadir={}", self.data.display()))
            .args(&self.more_options);
        for (option, directory) in &self.elsewhere {
            command.arg(format!("--{option}={}", directory.display()));
        }
        let run = ends_with_us(&mut command).stdin(Stdio::null()).output();
        let output = run.map_err(|e| format!("cannot run {program}: {e}"))?;
        match output.status.success() {
            true => Ok(()),
            false => Err(format!(
                "{program} --move-back failed:\n  {}",
                last_lines(&output.stderr[..]).join("\n  ")
            )),
        }
    }
}

impl Binlog {
    fn find(data: &Path, name: &str, index: Option<&str>) -> Binlog {
        let path = data.join(name.trim_start_matches("./"));
        let base = path
            .file_name()
            .map_or(String::new(), |base| base.to_string_lossy().into_owned());
        let mut index = data.join(index.unwrap_or(name).trim_start_matches("./"));
        if index.extension().is_none() || index == path {
            index.as_mut_os_string().push(".index");
        }
        let named = Path::new(name).parent().map(|folder| folder.display().to_string());
        Binlog {
            directory: path.parent().map_or_else(|| data.to_path_buf(), Path::to_path_buf),
            named: named.filter(|folder| !folder.is_empty()).unwrap_or_else(|| ".".into()),
            base,
            index,
        }
    }
    fn remove(&self, data: &Path) -> Result<()> {
        let listed = fs::read_to_string(&self.index).unwrap_or_default();
        for line in listed.lines().filter(|line| !line.is_empty()) {
            remove(&data.join(line.trim_start_matches("./")))?;
        }
        remove(&self.index)?;
        for name in names(&self.directory) {
            let end = name.strip_prefix(&self.base).and_then(|end| end.strip_prefix('.'));
            if end.is_some_and(|end| end == "state" || end.starts_with(|c: char| c.is_ascii_digit())) {
                remove(&self.directory.join(name))?;
            }
        }
        Ok(())
    }
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// Removes a file, a link, or a whole directory, if it exists.
fn remove(path: &Path) -> Result<()> {
    let done = match fs::symlink_metadata(path) {
        Ok(about) if about.is_dir() => fs::remove_dir_all(path),
        Ok(_) => fs::remove_file(path),
        Err(e) => Err(e),
    };
    match done {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(format!("{}: {e}", path.display())),
        _ => Ok(()),
    }
}

/// Works between file systems, too.
fn move_file(from: &Path, to: &Path) -> Result<()> {
    if fs::rename(from, to).is_ok() {
        return Ok(());
    }
    let copied = fs::copy(from, to).and_then(|_| fs::File::open(to)?.sync_all());
    copied.map_err(|e| format!("{}: {e}", to.display()))?;
    remove(from)
}

/// Exchanges the new directory and the old one in one step. If the file system cannot do this, the
/// old one is removed first. Then only Galera's own mark says that the files are incomplete.
fn exchange(new: &Path, old: &Path) -> Result<()> {
    let failed = |e: std::io::Error| format!("{}: {e}", old.display());
    if !old.exists() {
        return fs::rename(new, old).map_err(failed);
    }
    let text = |path: &Path| CString::new(path.as_os_str().as_bytes()).map_err(|e| e.to_string());
    let (new_text, old_text) = (text(new)?, text(old)?);
    // SAFETY: both paths are NUL-terminated.
    let exchanged = unsafe {
        libc::renameat2(
            libc::AT_FDCWD,
            new_text.as_ptr(),
            libc::AT_FDCWD,
            old_text.as_ptr(),
            libc::RENAME_EXCHANGE,
        )
    };
    if exchanged == 0 {
        return Ok(());
    }
    remove(old)?;
    fs::rename(new, old).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let path = std::env::temp_dir().join(format!("sluice-place-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        path
    }

    #[test]
    fn data_goes_and_the_rest_stays() {
        for name in [
            "galera.cache",
            "gcache.page.000001",
            "server-key.pem",
            "node.err",
            "slow.log",
            "mysqld.pid",
            "lost+found",
        ] {
            assert!(is_kept(name), "{name}");
        }
        for name in [
            "ibdata1",
            "mysql",
            "tc.log",
            "ddl_recovery.log",
            "aria_log_control",
            "master.info",
            "aria_log.00000001",
        ] {
            assert!(!is_kept(name), "{name}");
        }
    }

    #[test]
    fn directories_change_places() {
        let folder = scratch("exchange");
        let (new, old) = (folder.join("new"), folder.join("old"));
        for path in [&new, &old] {
            fs::create_dir(path).unwrap();
            fs::write(path.join("is"), path.display().to_string()).unwrap();
        }
        exchange(&new, &old).unwrap();
        assert!(fs::read_to_string(old.join("is")).unwrap().ends_with("new"));
        remove(&old).unwrap();
        remove(&old).unwrap();
        exchange(&new, &old).unwrap();
        assert!(old.exists() && !new.exists());
        remove(&folder).unwrap();
    }

    #[test]
    fn old_binary_logs_go() {
        let folder = scratch("binlog");
        let binlog = Binlog::find(&folder, "bin", None);
        assert_eq!((binlog.named.as_str(), &binlog.index), (".", &folder.join("bin.index")));
        for name in ["bin.000001", "bin.state", "binary.txt", "other.000001"] {
            fs::write(folder.join(name), "").unwrap();
        }
        fs::write(&binlog.index, "./bin.000001\n./other.000001\n").unwrap();
        binlog.remove(&folder).unwrap();
        assert_eq!(names(&folder), ["binary.txt"]);
        let elsewhere = Binlog::find(&folder, "/logs/bin", Some("/logs/list"));
        assert_eq!(
            (elsewhere.named.as_str(), elsewhere.index.to_str()),
            ("/logs", Some("/logs/list.index"))
        );
        remove(&folder).unwrap();
    }
}
