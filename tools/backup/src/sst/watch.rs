//! Ends the program when the server that started it ends. Closes the files that it inherited.
//!
//! The programs that this one runs are killed with it: `other_engines::ends_with_us`.
use super::log;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

const PERIOD: Duration = Duration::from_millis(200);
const SERVER_GONE: i32 = 32;
/// The server starts this program through a shell, which may still be the program's parent.
const SHELLS: &[&str] = &["sh", "dash", "bash"];

/// A file that is removed when the program ends with its server.
pub static IN_PROGRESS: OnceLock<PathBuf> = OnceLock::new();
/// A folder for temporary files that is removed then.
pub static SCRATCH: OnceLock<PathBuf> = OnceLock::new();

/// Otherwise sockets and locks of the server would stay open after its end, and be in the way of
/// the next server.
pub fn close_inherited_files() {
    // SAFETY: called first, so no file above standard error is this program's.
    unsafe { libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0) };
}

/// A thread ends the program soon after the server has ended. `server`: its process, if the
/// server has said it.
pub fn end_with_server(server: Option<u32>) {
    // SAFETY: the call has no preconditions.
    let own_parent = unsafe { libc::getppid() } as u32;
    let Some(server) = server.or_else(|| skip_shells(own_parent)) else {
        return;
    };
    let began = start_time(server);
    std::thread::spawn(move || loop {
        if began.is_none() || start_time(server) != began {
            log(
                "ERROR",
                &format!("the server (process {server}) has ended: the transfer ends too"),
            );
            if let Some(path) = IN_PROGRESS.get() {
                let _ = std::fs::remove_file(path);
            }
            if let Some(folder) = SCRATCH.get() {
                let _ = std::fs::remove_dir_all(folder);
            }
            std::process::exit(SERVER_GONE);
        }
        std::thread::sleep(PERIOD);
    });
}

fn skip_shells(mut process: u32) -> Option<u32> {
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        let (name, rest) = stat.split_once('(')?.1.rsplit_once(')')?;
        if !SHELLS.contains(&name) {
            return Some(process);
        }
        process = rest.split_whitespace().nth(1)?.parse().ok()?;
    }
}

/// When the process began, in the system's ticks; `None`: it has ended, or is a zombie.
fn start_time(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?;
    let began = fields.nth(18)?.parse().ok()?;
    (state != "Z" && state != "X").then_some(began)
}

/// The local time, as the server's other programs write it.
pub fn now() -> String {
    let mut text = [0u8; 32];
    // SAFETY: all pointers are of live variables; the format is NUL-terminated, and fits `text`.
    let length = unsafe {
        let mut parts = std::mem::zeroed();
        let seconds = libc::time(std::ptr::null_mut());
        libc::localtime_r(&seconds, &mut parts);
        libc::strftime(
            text.as_mut_ptr().cast(),
            text.len(),
            c"%Y%m%d %H:%M:%S".as_ptr(),
            &parts,
        )
    };
    String::from_utf8_lossy(&text[..length]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_are_known_by_their_start() {
        let own = std::process::id();
        assert!(start_time(own).is_some() && start_time(own) == start_time(own));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        std::thread::sleep(Duration::from_millis(300));
        assert_eq!(start_time(child.id()), None);
        child.wait().unwrap();
        assert_eq!(now().len(), "20261128 21:00:00".len());
    }

    #[test]
    fn shells_are_passed_over() {
        assert_eq!(skip_shells(std::process::id()), Some(std::process::id()));
    }
}
