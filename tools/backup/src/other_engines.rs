//! The other engines: `mariadb-backup` copies everything but Sluice, and prepares it after a
//! restore.
use crate::backup::Shared;
use crate::stream::REST;
use crate::{BackupArguments, RestoreArguments, Result};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::thread::JoinHandle;

/// Bytes of one frame.
const CHUNK: usize = 256 << 10;
/// Lines of the program's messages that are kept for an error.
const LINES_KEPT: usize = 12;

/// A running `mariadb-backup`.
pub struct OtherEngines {
    copy: JoinHandle<Result<()>>,
    info: PathBuf,
    process: u32,
}

/// The program is killed if the thread that starts it ends: call this in the main thread.
pub fn ends_with_us(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only this system call is made, which uses no memory of ours.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            Ok(())
        })
    }
}

/// A position in the binary log: file and offset. None: there is no binary log.
pub type Position = Option<(String, u64)>;

impl OtherEngines {
    /// Starts the program. Its output goes into the backup. `failed` is called if it fails.
    pub fn start(
        arguments: &BackupArguments,
        scratch: &Path,
        out: Shared,
        failed: impl FnOnce() + Send + 'static,
    ) -> Result<OtherEngines> {
        let info = scratch.join("info");
        let empty = scratch.join("empty");
        for folder in [&info, &empty] {
            std::fs::create_dir(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let mut command = Command::new(&arguments.mariadb_backup);
        arguments.connection.pass_password(&mut command);
        ends_with_us(&mut command)
            .args(arguments.connection.options())
            .args(["--backup", "--stream=xbstream"])
            // At the end, commits wait for the program's next copy of the log. The default is a
            // second.
            .arg("--log-copy-interval=50")
            .arg(format!("--target-dir={}", empty.display()))
            .arg(format!("--extra-lsndir={}", info.display()))
            .args(arguments.galera_info.then_some("--galera-info"))
            .args(arguments.galera_info.then_some("--databases-exclude=lost+found"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let program = arguments.mariadb_backup.display().to_string();
        let mut child = command.spawn().map_err(|e| format!("cannot run {program}: {e}"))?;
        let process = child.id();
        let copy = std::thread::spawn(move || {
            let copied = copy(&mut child, &out, &program);
            if copied.is_err() {
                // If the backup cannot be written, the program may still run.
                let _ = child.kill();
                let _ = child.wait();
                failed();
            }
            copied
        });
        Ok(OtherEngines { copy, info, process })
    }
    pub fn is_over(&self) -> bool {
        self.copy.is_finished()
    }
    /// Kills the program.
    pub fn abort(self) {
        if !self.copy.is_finished() {
            // SAFETY: the thread has not waited for the child yet, so the number is still its own.
            unsafe { libc::kill(self.process as libc::pid_t, libc::SIGKILL) };
        }
        // The backup has failed for another reason.
        let _ = self.copy.join();
    }
    /// Waits for the end of the program. Returns its position in the binary log.
    pub fn finish(self) -> Result<Position> {
        self.copy
            .join()
            .map_err(|_| "a thread of this program has panicked".to_string())??;
        let names = ["xtrabackup_info", "mariadb_backup_info"];
        let found = names
            .iter()
            .find_map(|name| std::fs::read_to_string(self.info.join(name)).ok());
        Ok(found.as_deref().and_then(position))
    }
}

fn copy(child: &mut Child, out: &Shared, program: &str) -> Result<()> {
    let messages = child
        .stderr
        .take()
        .map(|from| std::thread::spawn(move || last_lines(from)));
    let mut from = child.stdout.take().ok_or("no output")?;
    let mut chunk = vec![0; CHUNK];
    loop {
        let n = from.read(&mut chunk).map_err(|e| format!("{program}: {e}"))?;
        if n == 0 {
            break;
        }
        out.put(REST, &chunk[..n])?;
    }
    let status = child.wait().map_err(|e| format!("{program}: {e}"))?;
    let lines = messages.and_then(|lines| lines.join().ok()).unwrap_or_default();
    match status.success() {
        true => Ok(()),
        false => Err(format!("{program} failed:\n  {}", lines.join("\n  "))),
    }
}

pub fn last_lines(from: impl Read) -> Vec<String> {
    let mut lines = Vec::new();
    for line in BufReader::new(from).lines().map_while(std::result::Result::ok) {
        if lines.len() == LINES_KEPT {
            lines.remove(0);
        }
        lines.push(line);
    }
    lines
}

/// `binlog_pos = filename 'bin.000001', position '328', ...`
fn position(info: &str) -> Position {
    let line = info.lines().find_map(|line| line.strip_prefix("binlog_pos"))?;
    let value = |name: &str| {
        let (_, rest) = line.split_once(&format!("{name} '"))?;
        rest.split_once('\'').map(|(value, _)| value.to_string())
    };
    let file = value("filename")?;
    let file = file.rsplit('/').next().unwrap_or(&file).to_string();
    Some((file, value("position")?.parse().ok()?))
}

/// A running `mbstream`, which unpacks what `mariadb-backup` has written.
pub struct Unpack {
    child: Child,
    into: Option<ChildStdin>,
    program: String,
}

impl Unpack {
    pub fn start(arguments: &RestoreArguments, to: &Path) -> Result<Unpack> {
        let program = arguments.mbstream.display().to_string();
        let spawned = ends_with_us(&mut Command::new(&arguments.mbstream))
            .args(["-x", "-C"])
            .arg(to)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn();
        let mut child = spawned.map_err(|e| format!("cannot run {program}: {e}"))?;
        let into = child.stdin.take();
        Ok(Unpack { child, into, program })
    }
    pub fn put(&mut self, bytes: &[u8]) -> Result<()> {
        match &mut self.into {
            Some(into) => into.write_all(bytes).map_err(|e| format!("{}: {e}", self.program)),
            None => Ok(()),
        }
    }
    pub fn finish(mut self) -> Result<()> {
        drop(self.into.take());
        let status = self.child.wait().map_err(|e| format!("{}: {e}", self.program))?;
        match status.success() {
            true => Ok(()),
            false => Err(format!("{} cannot unpack the files of the other engines", self.program)),
        }
    }
}

/// Has `mariadb-backup` recover what was unpacked.
pub fn prepare(arguments: &RestoreArguments, directory: &Path) -> Result<()> {
    let program = arguments.mariadb_backup.display();
    let output = ends_with_us(&mut Command::new(&arguments.mariadb_backup))
        .arg("--prepare")
        .arg(format!("--target-dir={}", directory.display()))
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("cannot run {program}: {e}"))?;
    let lines = last_lines(&output.stderr[..]);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("{program} --prepare failed:\n  {}", lines.join("\n  "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_position_is_found() {
        let info =
            "uuid = 1\nbinlog_pos = filename 'master-bin.000002', position '1345', GTID of the last change '0-1-8'\n";
        assert_eq!(position(info), Some(("master-bin.000002".into(), 1345)));
        assert_eq!(position("binlog_pos = \n"), None);
    }
}
