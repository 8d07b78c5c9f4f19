//! The joiner: receives a backup, restores it beside its old files, and replaces these.
use super::options::Options;
use super::place::{Place, Progress};
use super::position::{of_sluice, recover_and_mark_unknown, Position};
use super::wire::{answer, notice_dead_peer, same_secret, Greeting};
use super::{log, place, tell_server};
use crate::backup::random_bytes;
use crate::other_engines::prepare;
use crate::restore::{check, make_private, unpack, Source};
use crate::stream::{ALL_ENGINES, WITHOUT_INNODB};
use crate::{RestoreArguments, Result};
use std::io::Read;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// How long a connection may take to say that it is the donor.
const GREETING: Duration = Duration::from_secs(5);
const ACCEPT_PERIOD: Duration = Duration::from_millis(50);
const MEMORY_MIB: u64 = 256;

pub fn run(options: &Options) -> Result<()> {
    options.refuse_encryption()?;
    let place = Place::find(options)?;
    place.remove_unfinished()?;
    let _in_progress = place.note_progress();
    let (listener, port) = listen(options)?;
    let secret: String = random_bytes::<16>()?.iter().map(|byte| format!("{byte:02x}")).collect();
    let mut address = options.address.clone();
    address.port = port;
    log("INFO", &format!("waits for a donor at {}", address.text()));
    // The donor's program gets the part before `@` in its environment. A command line would show it
    // to other users.
    tell_server(&format!("ready sluice:{secret}@{}/sluice_sst", address.text()))?;
    let (mut peer, greeting) = wait_for_donor(&listener, &secret, options.initial_timeout())?;
    drop(listener);
    if greeting.bypass {
        log("INFO", "nothing to copy: the group sends what is missing");
        return tell_server(&greeting.position);
    }
    let position = receive(options, &place, &mut peer, &greeting)?;
    log("INFO", &format!("the data directory has the state {position}"));
    tell_server(&position)
}

/// Listens at the given address. If the machine does not have this address (NAT), listens at all
/// addresses of the machine.
fn listen(options: &Options) -> Result<(TcpListener, u16)> {
    let address = &options.address;
    let failed = |e: std::io::Error| format!("cannot listen at {}: {e}", address.text());
    let found = (address.host.as_str(), address.port)
        .to_socket_addrs()
        .map_err(failed)?;
    let found: Vec<SocketAddr> = found.collect();
    let listener = TcpListener::bind(&found[..]).or_else(|e| match e.kind() {
        std::io::ErrorKind::AddrNotAvailable => {
            let every: IpAddr = match found.first() {
                Some(SocketAddr::V6(_)) => Ipv6Addr::UNSPECIFIED.into(),
                _ => Ipv4Addr::UNSPECIFIED.into(),
            };
            TcpListener::bind((every, address.port))
        }
        _ => Err(e),
    });
    let listener = listener.map_err(failed)?;
    let port = listener.local_addr().map_err(failed)?.port();
    Ok((listener, port))
}

/// The first connection that knows the secret. Others are refused, and cost the donor no more than
/// [`GREETING`] each.
fn wait_for_donor(listener: &TcpListener, secret: &str, limit: Option<Duration>) -> Result<(TcpStream, Greeting)> {
    let began = Instant::now();
    listener.set_nonblocking(true).map_err(|e| e.to_string())?;
    loop {
        match listener.accept() {
            Ok((peer, from)) => match greet(peer, secret) {
                Ok(found) => {
                    log("INFO", &format!("the donor is {}", from.ip()));
                    return Ok(found);
                }
                Err(why) => log("WARNING", &format!("a connection from {from} is refused: {why}")),
            },
            Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => std::thread::sleep(ACCEPT_PERIOD),
            Err(e) => return Err(format!("cannot take connections: {e}")),
        }
        if limit.is_some_and(|limit| began.elapsed() > limit) {
            let seconds = limit.map_or(0, |limit| limit.as_secs());
            return Err(format!(
                "no donor has connected within {seconds} s (sst-initial-timeout in the group [sst])"
            ));
        }
    }
}

fn greet(mut peer: TcpStream, secret: &str) -> Result<(TcpStream, Greeting)> {
    let set = |time| peer.set_nonblocking(false).and_then(|()| peer.set_read_timeout(time));
    set(Some(GREETING)).map_err(|e| e.to_string())?;
    let greeting = Greeting::receive(&mut Bounded::new(&peer, GREETING))?;
    if !same_secret(&greeting.secret, secret) {
        // An error is ignored: the other side may have closed the connection.
        let _ = answer(&mut peer, Err("wrong secret"));
        return Err("it does not know this node's secret".into());
    }
    peer.set_read_timeout(None).map_err(|e| e.to_string())?;
    notice_dead_peer(&peer);
    answer(&mut peer, Ok(()))?;
    Ok((peer, greeting))
}

/// A reader with a limit on the total time of all its reads.
struct Bounded<'a> {
    peer: &'a TcpStream,
    until: Instant,
}

impl<'a> Bounded<'a> {
    fn new(peer: &'a TcpStream, time: Duration) -> Bounded<'a> {
        let until = Instant::now() + time;
        Bounded { peer, until }
    }
}

impl Read for Bounded<'_> {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(std::io::ErrorKind::TimedOut.into());
        }
        self.peer.set_read_timeout(Some(left))?;
        self.peer.read(into)
    }
}

/// Reads from the donor. Reports progress to the server, if the server asked for it.
struct Counted {
    peer: TcpStream,
    progress: Option<Progress>,
}

impl Read for Counted {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        let n = self.peer.read(into)?;
        if let Some(progress) = &mut self.progress {
            progress.pass(n as u64);
        }
        Ok(n)
    }
}

/// Returns the line that reports the position to the server.
fn receive(options: &Options, place: &Place, peer: &mut TcpStream, greeting: &Greeting) -> Result<String> {
    let began = Instant::now();
    let arguments = RestoreArguments {
        backups: Vec::new(),
        to: place.restored.clone(),
        memory: MEMORY_MIB,
        mariadb_backup: "mariadb-backup".into(),
        mbstream: "mbstream".into(),
        sluice_check: None,
        quiet: true,
    };
    let sluice = place.restored.join(place::SLUICE);
    make_private(&place.restored)?;
    std::fs::create_dir(&sluice).map_err(|e| format!("{}: {e}", sluice.display()))?;
    let source = Source {
        name: "the donor's backup".into(),
        from: Box::new(Counted {
            peer: peer.try_clone().map_err(|e| e.to_string())?,
            progress: options.progress.then(Progress::default),
        }),
    };
    let about = unpack(&arguments, std::iter::once(Ok(source)), &place.restored, &sluice).inspect_err(|_| {
        // Half a backup is of no use, and the disk may be full. The next transfer removes the rest.
        let _ = place.remove_unfinished();
    })?;
    let has_innodb = match about.get("kind").map(String::as_str) {
        Some(ALL_ENGINES) => true,
        Some(WITHOUT_INNODB) => false,
        _ => return Err("the donor's backup has no files of the other engines".into()),
    };
    // The donor has nothing more to do. An error is ignored: it may have ended already.
    let _ = answer(peer, Ok(()));
    log(
        "INFO",
        &format!(
            "received in {:.1} s; recovers, and checks every page",
            began.elapsed().as_secs_f64()
        ),
    );
    let stored = recover_and_mark_unknown(&arguments, &sluice)?;
    check(&arguments, &sluice)?;
    if has_innodb {
        prepare(&arguments, &place.restored)?;
    }
    let others = std::fs::read_to_string(place.restored.join("xtrabackup_galera_info")).ok();
    let others = others.as_deref().and_then(Position::parse);
    let position = Position::newest(&[of_sluice(&stored), others])?;
    let position = position.map(|position| position.text());
    log("INFO", "checked; replaces the old files");
    place.take(&arguments, has_innodb, &stored)?;
    let (chosen, domain) = greeting.position.split_once(' ').unwrap_or((&greeting.position, "0"));
    Ok(format!("{} {domain}", position.as_deref().unwrap_or(chosen)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair() -> (TcpListener, u16) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        (listener, port)
    }

    #[test]
    fn strangers_are_refused_and_the_donor_is_taken() {
        let (listener, port) = pair();
        let greeting = |secret: &str| Greeting {
            bypass: true,
            secret: secret.into(),
            position: "u:1 0".into(),
        };
        let donor = std::thread::spawn(move || {
            let connect = || TcpStream::connect(("127.0.0.1", port)).unwrap();
            let mut stranger = connect();
            greeting("wrong").send(&mut stranger).unwrap();
            let refused = super::super::wire::receive_answer(&mut stranger);
            drop(connect());
            let mut talker = connect();
            std::io::Write::write_all(&mut talker, b"GET / HTTP/1.0\r\n\r\n").unwrap();
            let mut peer = connect();
            greeting("right").send(&mut peer).unwrap();
            (refused, super::super::wire::receive_answer(&mut peer))
        });
        let (_, found) = wait_for_donor(&listener, "right", Some(Duration::from_secs(20))).unwrap();
        assert_eq!(found.position, "u:1 0");
        let (refused, taken) = donor.join().unwrap();
        assert_eq!(refused, Err("the joiner refused: wrong secret".into()));
        assert_eq!(taken, Ok(()));
        let (listener, _) = pair();
        let none = wait_for_donor(&listener, "x", Some(Duration::from_millis(1)));
        assert!(none.is_err_and(|why| why.contains("sst-initial-timeout")));
    }
}
