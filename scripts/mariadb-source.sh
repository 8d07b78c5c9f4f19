# Sourced by the scripts that need a MariaDB and its source in one version: which version a server, its headers or a source
# is, and where the source of a version comes from. A server loads only a plugin that was built for its exact version.

MARIADB_PARTS=(VERSION include sql wsrep-lib libmariadb/include)
MARIADB_PARTS_OF_TESTS=(storage/example storage/innobase/mysql-test storage/rocksdb/mysql-test)
PINNED=$ROOT/scripts/pinned-mariadb

# ---- a server ----

# server_version SERVER: the version of the installed server, such as 10.11.19.
server_version() {
  local program=$1/sbin/mariadbd said version
  [ -x "$program" ] || fail "SERVER=$1: there is no $program; SERVER is the folder over sbin/mariadbd, /usr for an installed MariaDB"
  said=$("$program" --no-defaults --version 2>&1) || fail "SERVER=$1: $program does not start: ${said%%$'\n'*}"
  version=$(sed -n 's/.*Ver \([0-9]*\.[0-9]*\.[0-9]*\)-MariaDB.*/\1/p' <<<"$said")
  case $version in
    10.11.* | 11.8.*) echo "$version" ;;
    *) fail "SERVER=$1: the plugin is for MariaDB 10.11 and 11.8, this is '$said'" ;;
  esac
}

# server_headers SERVER: the folder with the headers that the server's own build generated.
server_headers() {
  local folder
  for folder in "$1"/include/{mariadb,mysql}/server; do
    [ ! -e "$folder/my_config.h" ] || { echo "$folder"; return; }
  done
  fail "SERVER=$1: the server's headers are missing, $1/include/mariadb/server/my_config.h for one; Debian's package is libmariadbd-dev"
}

# services_library SERVER: the library through which a plugin reaches the server's services.
services_library() {
  local file
  for file in "$1"/lib/*-linux-gnu/libmysqlservices.a "$1"/lib/libmysqlservices.a "$1"/lib64/libmysqlservices.a; do
    [ ! -e "$file" ] || { echo "$file"; return; }
  done
  fail "SERVER=$1: libmysqlservices.a is missing under $1/lib; Debian's package is libmariadb-dev"
}

header_version() { sed -n 's/^#define[ \t]*MYSQL_SERVER_VERSION[ \t]*"\([0-9.]*\).*/\1/p' "$1/mysql_version.h"; }

# ---- a source by hand ----

# source_version PATH: the version of a source folder or tarball.
source_version() {
  local text
  if [ -d "$1" ]; then
    text=$(cat "$1/VERSION" 2>&1) || fail "MARIADB_SOURCE=$1: there is no file VERSION in that folder; it is not MariaDB's source"
  elif [ -f "$1" ]; then
    text=$(tar -xOf "$1" --occurrence=1 --wildcards --no-wildcards-match-slash '*/VERSION' 2>&1) ||
      fail "MARIADB_SOURCE=$1: this is no tarball of MariaDB's source: ${text%%$'\n'*}"
  else
    fail "MARIADB_SOURCE=$1: there is no such folder or file"
  fi
  text=$(sed -n 's/^MYSQL_VERSION_\(MAJOR\|MINOR\|PATCH\)=\([0-9]*\).*/\2/p' <<<"$text" | paste -sd.)
  [[ $text =~ ^[0-9]+\.[0-9]+\.[0-9]+$ ]] || fail "MARIADB_SOURCE=$1: its file VERSION names no version"
  echo "$text"
}

# unpack_source PATH FOLDER: copies from a source folder or tarball what a plugin and its tests need.
unpack_source() {
  local source=$1 folder=$2 part said
  if [ -d "$source" ]; then
    for part in "${MARIADB_PARTS[@]}" "${MARIADB_PARTS_OF_TESTS[@]}"; do
      [ ! -e "$source/$part" ] || (cd "$source" && cp -r --parents -- "$part" "$folder") || fail "cannot copy $source/$part"
    done
  else
    # A part that is not in the archive is judged below; anything else that tar says is a broken archive.
    said=$(LC_ALL=C tar -xf "$source" -C "$folder" --strip-components=1 --wildcards --no-wildcards-match-slash \
      "${MARIADB_PARTS[@]/#/*/}" "${MARIADB_PARTS_OF_TESTS[@]/#/*/}" 2>&1 | grep -v -E 'Not found in archive|Exiting with failure status') || true
    [ -z "$said" ] || fail "cannot unpack $source: ${said%%$'\n'*}; remove it and get it again"
  fi
  for part in sql/handler.h include/my_global.h include/probes_mysql_nodtrace.h.in wsrep-lib/include wsrep-lib/wsrep-API/v26 libmariadb/include; do
    [ -e "$folder/$part" ] || fail "$source lacks $part: take a release's mariadb-VERSION.tar.gz (an archive that a git host makes has no submodules)"
  done
}

# ---- a source from the mirror ----

# found_source VERSION: the tarball of that version that was downloaded before.
found_source() {
  local file
  for file in "$APT/source/mariadb_$1"{,+ds}.orig.tar.{gz,xz}; do
    [ ! -e "$file" ] || { echo "$file"; return; }
  done
  return 1
}

# upstream DEBIAN-VERSION: 1:11.8.9+ds-0+deb13u1 is MariaDB 11.8.9.
upstream() { sed 's/^[0-9]*://; s/[-+].*//' <<<"$1"; }

# listed_source VERSION: the line "FILE DEBIAN-VERSION" of the tarball in the mirror's lists.
listed_source() {
  private_cache showsrc mariadb 2>/dev/null | awk '/^Version:/ { version = $2 } / mariadb_.*\.orig\.tar\.[gx]z$/ { print $3, version }' |
    sort -u | while read -r file debian; do
      [ "$(upstream "$debian")" != "$1" ] || echo "$file $debian"
    done | head -1
}

# download_source VERSION: from the mirror's lists, or by its checksum in scripts/pinned-mariadb. Needs apt_setup.
download_source() {
  local file debian pinned
  ! found_source "$1" >/dev/null || return 0
  read -r file debian <<<"$(listed_source "$1")"
  if [ -n "${debian:-}" ]; then
    step "downloading MariaDB's source $file (about 115 MB)"
    (cd "$APT/source" && quiet private_apt source --download-only "mariadb=$debian") && return
    rm -f "$APT/source/$file"
  fi
  pinned=$(pinned_file source "$1") || return 1
  step "downloading MariaDB's source $pinned (about 115 MB)"
  download_pinned "$pinned" "$APT/source"
}

# ---- versions that the mirror keeps but lists no longer ----

# pinned_file PACKAGE VERSION: the name of the file.
pinned_file() { awk -v package="$1" -v version="$2" '$1 == package && $2 == version { print $3; found = 1; exit } END { exit !found }' "$PINNED"; }

# pinned_version CODENAME: the version of that Debian whose packages and source are both known by checksum.
pinned_version() {
  [ "$(dpkg --print-architecture)" = amd64 ] || return 1
  awk -v codename="$1" '$1 == "default" && $2 == codename { print $3; found = 1 } END { exit !found }' "$PINNED"
}

# download_pinned FILE FOLDER: by its path in the mirror's pool; apt checks it against the checksum.
download_pinned() {
  local sum mirror
  [ ! -e "$2/$1" ] || return 0
  sum=$(awk -v file="$1" '$3 == file { print $4 }' "$PINNED")
  mirror=$(sed -n 's/^URIs: *\([^ ]*\).*/\1/p' "$APT/main.sources" | head -1)
  mkdir -p "$2"
  APT_CONFIG=$APT/apt.conf quiet /usr/lib/apt/apt-helper download-file "${mirror%/}/pool/main/m/mariadb/$1" "$2/$1.part" "SHA256:$sum" &&
    mv "$2/$1.part" "$2/$1"
}

# missing_source VERSION COMMAND: what to say when a version's source cannot be downloaded.
missing_source() {
  local file
  read -r file _ <<<"$(listed_source "$1" 2>/dev/null)" || true
  echo "the source of MariaDB $1 (${file:-mariadb_$1.orig.tar.gz}) cannot be downloaded from the mirror: get" \
    "https://archive.mariadb.org/mariadb-$1/source/mariadb-$1.tar.gz, or that file of Debian's source package mariadb, and run '$2'"
}
