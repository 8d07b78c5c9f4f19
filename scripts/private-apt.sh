# Sourced by the fetch scripts: an apt of our own under build/apt (sources, lists, cache, an empty list of installed
# packages), so that nothing of the system's apt is read beyond its mirror, keys and proxy, and nothing of it is changed.

APT=$BUILD/apt

# apt_setup [SUITE...]: writes the private configuration and fetches the package lists, and of further suites (CODENAME-security)
# those of sources.
apt_setup() {
  local codename architecture
  codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
  command -v apt-get >/dev/null && command -v dpkg >/dev/null || fail "Debian is needed: MariaDB is fetched with apt-get and dpkg, which are not here"
  case $codename in
    bookworm | trixie) ;;
    *) fail "Debian 12 (MariaDB 10.11) or Debian 13 (MariaDB 11.8) is needed, this is '${codename:-unknown}': use one of them, in a container for instance" ;;
  esac
  architecture=$(dpkg --print-architecture)
  mkdir -p "$APT"/{lists,cache,archives}/partial "$APT/source"
  : >"$APT/status"
  python3 "$ROOT/scripts/apt_sources.py" "$codename" "$@" >"$APT/main.sources" || fail "$(python3 "$ROOT/scripts/apt_sources.py" "$codename" 2>&1)"
  cat >"$APT/apt.conf" <<CONF
Dir::Etc::sourcelist "$APT/main.sources";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
Dir::State::lists "$APT/lists";
Dir::State::status "$APT/status";
Dir::State::extended_states "$APT/extended_states";
Dir::Cache "$APT/cache";
Dir::Cache::archives "$APT/archives";
Dir::Log "$APT";
#clear APT::Update::Pre-Invoke;
#clear APT::Update::Post-Invoke;
#clear APT::Update::Post-Invoke-Success;
#clear DPkg::Post-Invoke;
#clear Acquire::IndexTargets::deb::DEP-11;
#clear Acquire::IndexTargets::deb::DEP-11-icons;
#clear Acquire::IndexTargets::deb::DEP-11-icons-small;
#clear Acquire::IndexTargets::deb::DEP-11-icons-large;
#clear APT::Architectures;
APT::Architectures:: "$architecture";
APT::Sandbox::User "root";
Acquire::Languages "none";
Acquire::Retries "3";
CONF
  step "reading Debian's package lists"
  quiet private_apt update || fail "apt cannot reach Debian's mirror ($(sed -n 's/^URIs: //p' "$APT/main.sources" | paste -sd' ')): check the network or set DEBIAN_MIRROR=URL; log: $APT/log"
}

private_apt() { apt-get -q -c "$APT/apt.conf" -o APT::Update::Error-Mode=any "$@"; }

private_cache() { apt-cache -q -c "$APT/apt.conf" "$@"; }

# quiet COMMAND...: runs it with its output in build/apt/log.
quiet() { "$@" >"$APT/log" 2>&1; }

# closure PACKAGE...: the packages and all that they need, in a system that has nothing, one a line. With an archive folder
# of its own, because apt leaves out what it finds downloaded.
closure() {
  mkdir -p "$APT/none/partial"
  private_apt -o "Dir::Cache::archives=$APT/none" install --print-uris -y --no-install-recommends "$@" 2>"$APT/log" | sed -n "s/^'[^']*' \([^ _]*\)_.*/\1/p"
}

# installed: the packages that the system has.
installed() { dpkg-query -W -f='${db:Status-Abbrev} ${Package}\n' | sed -n 's/^ii *//p'; }
