"""A Debian root under a folder (made by scripts/clean-root), in which programs run in namespaces of their own. Needs root.

    root = DebianRoot("build/applications/root")
    root.run("apt-get -y install php-cli")       # raises Failed with the last lines when the exit code is not 0
    program = root.start("php -S 127.0.0.1:8000", "php")
    program.stop(); root.close()                 # all of its processes end with it

The processes have the network of the host. The folder stays, and can be opened again.
"""
import os
import pathlib
import signal
import subprocess
import tempfile

ENVIRONMENT = ["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "DEBIAN_FRONTEND=noninteractive", "TERM=dumb"]
MOUNTS = 'mount --rbind /dev "$0/dev"; mount -t proc proc "$0/proc"; [ -z "$1" ] || mount --bind "$1" "$0/var/cache/apt/archives"'
APT_OPTIONS = ("--no-install-recommends --allow-downgrades -o Dpkg::Options::=--force-confold -o Dpkg::Options::=--force-unsafe-io "
               "-o Dpkg::Use-Pty=0 -o APT::Keep-Downloaded-Packages=true")


class Failed(Exception):
    """Something is not as it must be; the text says what."""


class Program:
    """A program that runs in a root until it is stopped; its output is in a file."""

    def __init__(self, command, log):
        self.log = log
        with open(log, "ab") as out:
            # A session of its own: a signal reaches nsenter and what it started.
            self.process = subprocess.Popen(command, stdout=out, stderr=out, stdin=subprocess.DEVNULL, start_new_session=True)

    def running(self):
        return self.process.poll() is None

    def said(self):
        return self.log.read_text(encoding="utf-8", errors="replace")

    def stop(self, how=signal.SIGTERM, timeout=30):
        if self.running():
            os.killpg(self.process.pid, how)
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            return self.process.wait(timeout)


class DebianRoot:
    def __init__(self, folder, archives=None):
        """`archives`: the folder where apt keeps the packages that it downloads."""
        self.folder = pathlib.Path(folder)
        self.holder = subprocess.Popen(
            ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--propagation", "private", "bash", "-ec",
             MOUNTS + "; echo ready; exec chroot \"$0\" /bin/sh -c 'while :; do sleep 1000 & wait; done'", self.folder, archives or ""],
            stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
        if self.holder.stdout.readline() != "ready\n":
            raise Failed(f"{folder}: its namespaces cannot be made")
        children = pathlib.Path(f"/proc/{self.holder.pid}/task/{self.holder.pid}/children")
        self.first = children.read_text().split()[0]

    def close(self):
        """Its processes and mounts are gone before the folder may be removed."""
        subprocess.run(["kill", "-9", self.first], check=False)
        self.holder.wait()

    def entered(self, command, environment=()):
        return ["nsenter", "--target", self.first, "--mount", "--pid", "--", "chroot", self.folder, *ENVIRONMENT, *environment,
                "bash", "-c", command]

    def try_run(self, command, timeout=900):
        """Returns the exit code and what was said, on both channels."""
        with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as said:
            # A file, and not a pipe: a server that the command starts keeps it open.
            code = subprocess.run(self.entered(command), stdout=said, stderr=said, stdin=subprocess.DEVNULL, timeout=timeout, check=False).returncode
            said.seek(0)
            text = said.read()
        with open(self.folder.with_suffix(".log"), "a", encoding="utf-8") as log:
            log.write(f"\n$ {command}\n{text}[{code}]\n")
        return code, text

    def run(self, command, timeout=900):
        code, text = self.try_run(command, timeout)
        if code != 0:
            raise Failed(f"'{command}' ended with {code}: {' / '.join(text.strip().splitlines()[-4:])}")
        return text

    def start(self, command, name, environment=()):
        """A program in the background; `environment` has entries such as "A=b". Its log is beside the root's folder."""
        log = self.folder.parent / f"{name}.log"
        log.unlink(missing_ok=True)
        return Program(self.entered(f"exec {command}", environment), log)

    def apt(self, arguments):
        return self.run(f"apt-get -y -q {APT_OPTIONS} {arguments}", timeout=3600)
