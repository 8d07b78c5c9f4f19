//! The donor: sends a backup of its running server to the joiner.
use super::options::Options;
use super::wire::{notice_dead_peer, receive_answer, Greeting};
use super::{log, tell_server};
use crate::backup::write_to;
use crate::target::Target;
use crate::{BackupArguments, Result};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Limit for connecting. The joiner listens already, so only a network that loses packets needs it.
const CONNECT: Duration = Duration::from_secs(30);
/// Limit for the joiner's answer to a greeting. The joiner may first wait for another connection,
/// for `joiner::GREETING`.
const ANSWER: Duration = Duration::from_secs(60);

pub fn run(options: &Options) -> Result<()> {
    options.refuse_encryption()?;
    let what = if options.bypass {
        "only the position"
    } else {
        "a backup, not encrypted; position"
    };
    log(
        "INFO",
        &format!("sends to {}: {what} {}", options.address.text(), options.position),
    );
    let mut peer = connect(options)?;
    let greeting = Greeting {
        bypass: options.bypass,
        secret: options.secret.clone(),
        position: options.position.clone(),
    };
    greeting.send(&mut peer)?;
    wait_at_most(&peer, Some(ANSWER))?;
    receive_answer(&mut peer)?;
    wait_at_most(&peer, None)?;
    if !options.bypass {
        send_backup(options, &mut peer)?;
    }
    log("INFO", &format!("{} has received everything", options.address.text()));
    let number = options.position.split(' ').next().unwrap_or("");
    tell_server(&format!("done {number}"))
}

fn connect(options: &Options) -> Result<TcpStream> {
    let began = Instant::now();
    let failed = |e: std::io::Error| format!("cannot reach the joiner at {}: {e}", options.address.text());
    let host = (options.address.host.as_str(), options.address.port);
    let addresses: Vec<_> = host.to_socket_addrs().map_err(failed)?.collect();
    loop {
        let mut last = None;
        for address in &addresses {
            match TcpStream::connect_timeout(address, CONNECT) {
                Ok(peer) => {
                    notice_dead_peer(&peer);
                    return Ok(peer);
                }
                Err(e) => last = Some(e),
            }
        }
        if began.elapsed() > CONNECT || last.is_none() {
            return Err(last.map_or_else(|| format!("the name {} has no address", options.address.host), failed));
        }
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn wait_at_most(peer: &TcpStream, time: Option<Duration>) -> Result<()> {
    peer.set_read_timeout(time).map_err(|e| e.to_string())
}

fn send_backup(options: &Options, peer: &mut TcpStream) -> Result<()> {
    let connection = options.connection();
    // With this value the server does not pause replication at the point of a backup.
    let method = connection.sql("SET SESSION wsrep_sync_wait = 0; SELECT @@GLOBAL.wsrep_sst_method")?;
    if method.first().is_some_and(|method| method == "mariabackup") {
        return Err(
            "this node has wsrep_sst_method=mariabackup, so its server does not stop commits at the point of the \
                    backup: SET GLOBAL wsrep_sst_method = sluice"
                .into(),
        );
    }
    let arguments = BackupArguments {
        target: None,
        stream: true,
        compress: options
            .of_sst("compress")
            .is_some_and(|value| value != "none" && value != "0"),
        throttle: options.rate_limit()?,
        save_pages: None,
        incremental: None,
        sluice_only: false,
        galera_info: true,
        quiet: true,
        for_server: options.progress,
        connection,
        mariadb_backup: "mariadb-backup".into(),
    };
    let began = Instant::now();
    let out = peer.try_clone().map_err(|e| e.to_string())?;
    write_to(&arguments, Target::Peer(Box::new(out)), None)?;
    receive_answer(peer).map_err(|why| format!("the joiner has not confirmed the whole backup: {why}"))?;
    log(
        "INFO",
        &format!("the backup took {:.1} s", began.elapsed().as_secs_f64()),
    );
    Ok(())
}
