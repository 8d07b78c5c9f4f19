# Sluice. `make` leaves a private MariaDB in build/mariadb and the plugin for it in build/ha_sluice.so; the system's own
# MariaDB is neither used nor touched, and root is not needed. Everything made is in build/ and target/.
#
#   make              the plugin             make server       a MariaDB with Sluice on 127.0.0.1:$(PORT)
#   make test         all tests              make server-stop  stops it
#   make settings     writes the server's variables and the manual's table of them from the engine's table
#   make check        format, lints, layers  make test-11.8    the plugin and its tests with MariaDB 11.8 (needs root)
#   make sqltest      the SQL tests alone; SQLTEST='NAME...' some of them
#   make SERVER=/usr MARIADB_SOURCE=PATH   the plugin for a MariaDB 10.11 or 11.8 of your own: build/for-VERSION/ha_sluice.so
#                     SERVER is the folder over its sbin/mariadbd. PATH is a folder or tarball with MariaDB's source of that version;
#                     without it the source is downloaded where Debian's mirror has it. Once is enough: it is kept in build/.
#   make SERVER=/usr sqltest   the SQL tests with that server and plugin
#   make clean        removes what was compiled; distclean: the downloads too, and build/run, where the servers keep their data
#   make help         prints this
#   make stand-in     the plugin under InnoDB's name, build/ha_innodb.so; scripts/stand-in start makes a server of it
#   make stand-in-test   compares that server with one that has InnoDB: variables, status variables, tables; and a backup
#   make stand-in-applications   WordPress, Redmine, Zabbix and others on that server, installed, used and crashed (root);
#                     APPLICATIONS='Redmine Zabbix' some
#   make mtr          MariaDB's suite storage_engine on Sluice, judged by InnoDB's output; MTR='--suite vcol,gcol' others,
#                     make mtr-all every one that scripts/mtr/suites.py knows; with every change of a secondary index buffered:
#                     MTR=--server-option=--sluice-change-buffer-test-mode=1
#   make demo         Sluice next to InnoDB: inserts into tables larger than memory, sysbench, kill -9; leaves a server running
#   make bench        sysbench side by side, measured (BENCH='--io-bound', see scripts/bench/sysbench.py --help)
#   make tpch         TPC-H's 22 queries side by side: results, plans, times (BENCH='--queries 2,11 --explain', scripts/bench/tpch.py --help)
#   make dump         mariadb-dump of a Sluice database into InnoDB and back
#   make apps         the schemas of Debian's packaged applications, loaded into Sluice and into InnoDB, and compared
#   make orms         tests of Django and SQLAlchemy on Sluice and on InnoDB, compared (ORMS='--only django --tests delete,fixtures')
#   make fuzz         random statements on Sluice and on InnoDB, compared (MINUTES, SEED); then readers and writers at once
#   make lab          every experiment at its smallest size, one report (about 30 minutes); see lab/README.md
#   make kill         ROUNDS of kill -9 under 8 writing clients, as many while definitions change, and as many with tables of InnoDB in
#                     the same transactions, with an account of every row and table; soak: MINUTES of each
#   make vectors      VECTOR indexes with MariaDB 11.8 (root): kill -9 among changes, definitions and searches; then the graph is
#                     compared with the rows, and searches with a search through all rows (VECTORS='--rounds 40 --binlog';
#                     VECTORS=--stand-in: the plugin under InnoDB's name)
#   make isolation    random transactions over many connections, and a search for what LEVEL forbids; ENGINE, COMMITS, ROWS,
#                     CONNECTIONS, SEED, KILLS (kill -9 and restart among them); NODES=3: over the nodes of a Galera cluster
#   make online-alter ADD INDEX and rebuilds with LOCK=NONE beside writers: their rate, and 50 times KILL or kill -9 in the middle; on a
#                     plain table, with partitions, foreign keys, virtual columns (ALTER='--table plain --rows 1000000' as you like)
#   make instant-alter   500 random instant ALTERs next to InnoDB, compared; then timed on 10 million rows (ALTER=... as above)
#   make galera       a cluster of three nodes: conflicts, DDL, kill -9, state transfers for MINUTES, then compared
#   make galera-transfers  full state transfers: the donor's longest pause; either node killed in the middle (TRANSFERS='--sst sluice')
#   make galera-rejoin   how long a killed node is away, next to InnoDB (BENCH='--rounds 2 --transfer incremental')
#   make sharding     shards behind the server's engine Spider: rates, and what kill -9 leaves (SHARDING='--part crash')
#   make replication  primary and replica under load, kill -9 of either for MINUTES, then compared
#   make long-reader  one transaction open for 5 minutes over running writers: their rate, and the undo's size after it
#   make buffering-cost   what the change buffer costs with all pages in memory; monitoring-cost: what instruments and polls cost
#   make faults       broken pages, missing files, failing syncs, a full disk: a table of what came of each
#   make packages     .deb files for Debian 12 and, as root, for Debian 13, in build/packages; SOURCES='PATH...' has sources of
#                     MariaDB that the mirror lacks;  make packages-test: installs, updates and removes them in clean roots (root)
#   make sluice-check the checker for the files of a stopped server, target/release/sluice-check
#   make sluice-backup  backup of a running server, and restore: target/release/sluice-backup
#   make backup-rounds  ROUNDS backups under load, restored and compared, 20 of 50 with kill -9 (scripts/backup_rounds.py --help)
#   make memory       memory beyond the pool, stage by stage;  make tables: thousands of tables, next to InnoDB
#   make record       measures all of docs/benchmarks again, stores the results, writes the pages (BENCH='tpch memory', BENCH=--list)
#   make dashboard    the dashboard and the alerts of scripts/monitoring, tried on a server under load, and looked at in a browser
#   make loads        filling tables and building indexes, next to InnoDB (scripts/bench/loads.py --help)
#   make sim          the engine on a simulated disk: a crash at every I/O, thousands of seeded schedules; a part of make test
#   make races        the lock-free code: models through all interleavings, planted bugs, Miri, the thread sanitizer (RACES=models some)
#   make soak SCHEDULES=100000   so many new schedules instead, SOAK=families so many lives of tables with foreign keys;
#                     make mutants: planted bugs, and who catches them
#   make plugin-mutants   the same for bugs in the plugin, with scripts/instant_alters.py, online_alter.py, galera_durability.py,
#                         isolation.py;  make vector-mutants: those of VECTOR indexes, with MariaDB 11.8 (root)

SHELL := /bin/bash
.DELETE_ON_ERROR:
MAKEFLAGS += --jobs=2

PORT ?= 23306
# The name that the plugin registers under: ENGINE=..., and the prefix of its variables. With the name InnoDB (make stand-in)
# it takes InnoDB's place, and has InnoDB's variables and tables.
PLUGIN_NAME ?= SLUICE

# A static library of the engine that is ready made: Rust is then not needed here.
ENGINE_LIB ?=

# What the plugin is for: the server under this prefix, or the private one. The plugin fits one version to the last digit.
SERVER ?=
MARIADB_SOURCE ?=
export SERVER MARIADB_SOURCE
ifneq ($(SERVER),)
# Where this is empty, scripts/fetch-server-source says why.
out := build/for-$(or $(shell scripts/server-version '$(SERVER)' 2>/dev/null),unknown)
installed := $(SERVER)
ours_alone := $(filter-out plugin sqltest help tools clean distclean build/%,$(MAKECMDGOALS))
$(if $(ours_alone),$(error make $(ours_alone) uses build/mariadb: leave SERVER out. With SERVER there are 'make' and 'make sqltest'))
else
out := build
installed := build/mariadb/usr
endif

# MUTANTS=1: with planted bugs (plugin/mutant.h). Only the files that have some are compiled again.
MUTANTS ?=
plugin_file := ha_$(shell echo $(PLUGIN_NAME) | tr A-Z a-z)
objects := $(patsubst plugin/%.cc,$(out)/obj/$(plugin_file)/%.o,$(wildcard plugin/*.cc))
ifeq ($(MUTANTS),)
plugin := $(out)/$(plugin_file).so
else
plugin := $(out)/mutants/$(plugin_file).so
with_mutants := $(patsubst plugin/%.cc,%.o,$(shell grep -lE '"(mutant|column_value)\.h"' plugin/*.cc))
objects := $(filter-out $(with_mutants:%=$(out)/obj/$(plugin_file)/%),$(objects)) $(with_mutants:%=$(out)/obj/mutants/%)
endif
engine := $(or $(ENGINE_LIB),target/release/libsluice_ffi.a)

# Raise the number when the fetch script fetches more than before.
mariadb := build/mariadb/.complete-2
server_source := $(out)/server-source/.complete-1

.PHONY: plugin
plugin: $(plugin)

.PHONY: help
help:
	@sed -n '/^#/!q; s/^# \{0,1\}//p' Makefile

# ---- tools and MariaDB -----------------------------------------------------------------------------------------------
.PHONY: tools
tools:
	@ENGINE_LIB=$(ENGINE_LIB) scripts/check-tools

$(mariadb): | tools
	@scripts/fetch-mariadb $(@F)

ifeq ($(SERVER),)
$(server_source): $(mariadb)
	@scripts/fetch-server-source $(@F)
else
$(server_source): | tools
	@scripts/fetch-server-source $(@F)
endif

# What was named on the command line is compared each time; the stamps stay as they are when nothing is new.
ifneq ($(SERVER)$(MARIADB_SOURCE),)
ifndef count_alone
.PHONY: look
$(mariadb) $(server_source): look
endif
endif

# ---- the engine (Rust) -----------------------------------------------------------------------------------------------
ifndef ENGINE_LIB
build/crates: Cargo.lock | tools
	@mkdir -p build
	@cargo fetch --locked >build/crates.log 2>&1 || { \
	  echo "error: cargo could not fetch the crates of Cargo.lock ($$(sed '/^$$/d' build/crates.log | tail -n 1 | sed 's/^ *//')):" \
	    "check the network and make again; log: build/crates.log" >&2; exit 1; }
	@touch $@

# Cargo knows best what is out of date; it leaves the file alone when nothing is.
$(engine): engine-build ;
.PHONY: engine-build
engine-build: build/crates
	@cargo build --release --locked --target-dir target -p sluice-ffi
endif

# Backup of a running server, and restore. It runs the checker.
.PHONY: sluice-backup
sluice-backup: build/crates sluice-check
	@cargo build --release --locked --quiet --target-dir target -p sluice-backup

# The checker of a dead server's files.
.PHONY: sluice-check
sluice-check: build/crates
	@cargo build --release --locked --quiet --target-dir target -p sluice-check

# ---- packages --------------------------------------------------------------------------------------------------------
SOURCES ?=
PACKAGES_TEST ?=
.PHONY: packages packages-here packages-test
ifndef ENGINE_LIB
.PHONY: packaged-tools
packaged-tools: build/crates
	@cargo build --release --locked --quiet --target-dir target $(addprefix -p ,$(shell sed 's/\#.*//' packages/tools))

packages: plugin packaged-tools
	@MAKE='$(MAKE)' ENGINE='$(engine)' SOURCES='$(SOURCES)' scripts/packages all
endif

# In the Debian 13 root, where there is no Rust: the engine and the tools are those of `make packages`.
packages-here: plugin
	@MAKE='$(MAKE)' scripts/packages here

packages-test:
	@scripts/packagestest $(PACKAGES_TEST)

# ---- the shim (C++) --------------------------------------------------------------------------------------------------
source := $(out)/server-source
# Generated headers first. The server's headers are system headers to the compiler: their warnings are not ours. zlib's header came
# with the server's packages where the system has none.
CXXFLAGS ?= -O2 -g1
shim_flags := -std=gnu++17 -fPIC -fno-gnu-unique -fno-semantic-interposition -fno-plt -Wall -Wextra -Wno-unused-parameter -MMD -MP \
  -DHAVE_CONFIG_H -DMYSQL_DYNAMIC_PLUGIN -DMYSQL_SERVER -DDBUG_OFF -DWITH_WSREP=1 -D_FILE_OFFSET_BITS=64 \
  -DSLUICE_PLUGIN_NAME=$(PLUGIN_NAME) $(if $(filter ha_innodb,$(plugin_file)),-DSLUICE_STAND_IN) \
  $(addprefix -isystem ,$(out)/server-include $(source)/include $(source)/include/providers $(source)/sql $(source)/wsrep-lib/include \
  $(source)/wsrep-lib/wsrep-API/v26 $(source)/libmariadb/include $(source)) \
  -idirafter $(installed)/include

# "3 of 33": the second is how many a dry run of make would compile, asked at the first of them.
ifdef count_alone
count = : compiling
else
to_compile = $(eval to_compile := $(shell $(MAKE) --dry-run count_alone=1 SERVER='$(SERVER)' PLUGIN_NAME=$(PLUGIN_NAME) ENGINE_LIB=none \
  $(objects) 2>/dev/null | grep -c '^: compiling'))$(to_compile)
compiled :=
count = $(eval compiled += x)echo "== compiling $< ($(words $(compiled)) of $(to_compile))" >&2
endif

$(out)/obj/$(plugin_file)/%.o: plugin/%.cc Makefile $(server_source)
	@mkdir -p $(@D)
	@$(count)
	@$(CXX) $(CXXFLAGS) $(shim_flags) -c -o $@ $<

$(out)/obj/mutants/%.o: plugin/%.cc Makefile $(server_source)
	@mkdir -p $(@D)
	@$(count)
	@$(CXX) $(CXXFLAGS) $(shim_flags) -DSLUICE_MUTANTS -c -o $@ $<

services = $(installed)/lib/*-linux-gnu/libmysqlservices.a $(installed)/lib*/libmysqlservices.a

# The engine's symbols stay inside, so that two plugins of this kind can be loaded side by side; those of
# libmysqlservices.a must be seen, because the server fills them in. Calls inside the plugin go straight, not by the table of what others may replace.
$(plugin): $(objects) $(engine) $(server_source)
	@echo "== linking $@" >&2
	@mkdir -p $(@D)
	@$(CXX) -shared -o $@ $(objects) $(engine) $$(ls $(services) 2>/dev/null | head -1) \
	  -Wl,--exclude-libs,libsluice_ffi.a -Wl,-Bsymbolic-functions -Wl,-z,now -lpthread -ldl -lm

-include $(objects:.o=.d)

# ---- running and testing ---------------------------------------------------------------------------------------------
.PHONY: server server-stop test
server: plugin
	@python3 scripts/server.py start --port $(PORT)

# Sluice as InnoDB, in a server without InnoDB: docs/guide/stand-in.md.
.PHONY: stand-in
stand-in:
	@$(MAKE) --no-print-directory PLUGIN_NAME=InnoDB plugin

.PHONY: stand-in-test
stand-in-test: stand-in sluice-backup
	@scripts/standintest

# APPLICATIONS='Redmine --on stand-in': one, on the stand-in alone; APPLICATIONS=--page: writes the guide's page too.
APPLICATIONS ?=
.PHONY: stand-in-applications
stand-in-applications: stand-in
	@scripts/applications/run.py $(APPLICATIONS)

server-stop:
	@python3 scripts/server.py stop

test: plugin
	@MAKE='$(MAKE)' scripts/test

# The SQL tests alone, with the server that the plugin was built for.
SQLTEST ?=
.PHONY: sqltest
sqltest: plugin
	@scripts/sqltest $(if $(SERVER),--prefix '$(SERVER)' --plugin $(plugin) --folder $(out)/mtr/sqltest) $(SQLTEST)

# The same plugin and tests with MariaDB 11.8, in a Debian 13 root under build/trixie; needs root. The engine comes from here;
# a source that MARIADB_SOURCE names is seen there too.
.PHONY: test-11.8
test-11.8: $(engine)
	scripts/trixie make plugin ENGINE_LIB=$(engine)
	scripts/trixie env MTR_PORT_BASE=17000 scripts/sqltest

.PHONY: vectors vector-mutants
vectors: $(engine) $(if $(ENGINE_LIB),,sluice-backup)
	scripts/trixie make plugin $(if $(findstring --stand-in,$(VECTORS)),PLUGIN_NAME=InnoDB) ENGINE_LIB=$(engine)
	scripts/trixie scripts/vectors.py $(VECTORS)

vector-mutants: $(engine)
	scripts/trixie make plugin MUTANTS=1 ENGINE_LIB=$(engine)
	scripts/trixie scripts/plugin_mutants

# The lab's load client, which the demo uses too; cargo knows whether it is out of date.
.PHONY: lab-client
lab-client: | tools
	@mkdir -p build/lab
	@command -v cargo >/dev/null || { echo "error: Rust is missing: the load client of the demo is compiled with cargo" >&2; exit 1; }
	@[ -e build/lab/target/release/lab-client ] || echo "== compiling the load client" >&2
	@cd lab && cargo build --release --locked --quiet --target-dir ../build/lab/target -p lab-client >../build/lab/client.log 2>&1 || { \
	  echo "error: the load client does not compile ($$(grep -m 1 ^error ../build/lab/client.log)): check the network and make again;" \
	    "log: build/lab/client.log" >&2; exit 1; }

# ---- judging ---------------------------------------------------------------------------------------------------------
ROUNDS ?= 20
MINUTES ?= 60

.PHONY: demo bench loads memory tables tpch dump apps orms mtr mtr-all kill faults soak fuzz lab
demo: plugin lab-client
	@scripts/demo/demo.py

bench: plugin
	@scripts/bench/sysbench.py $(BENCH)

loads: plugin
	@scripts/bench/loads.py $(BENCH)

memory: plugin
	@scripts/bench/memory.py $(BENCH)

tables: plugin
	@scripts/bench/tables.py $(BENCH)

tpch: plugin
	@scripts/bench/tpch.py $(BENCH)

.PHONY: dashboard
dashboard: plugin
	@scripts/monitoring/run.py $(DASHBOARD)

.PHONY: record bench-pages
record: plugin
	@scripts/bench/record.py $(BENCH)

bench-pages:
	@scripts/bench/pages.py

dump: plugin
	@scripts/dump_roundtrip.py

# APPS=--samples: three small schemas without network; APPS='--only zabbix,kea': some; APPS=--page: writes docs/applications.md too.
APPS ?=
apps: plugin
	@scripts/apps/apps.py $(APPS)

ORMS ?=
orms: plugin
	@scripts/apps/orm_suites.py $(ORMS)

mtr: plugin
	@scripts/mtr/compare.py $(MTR)

mtr-all: plugin
	@scripts/mtr/compare.py --suite all $(MTR)

lab: plugin
	@lab/lab run all --preset smoke

kill: plugin
	@scripts/kill/kill.py --rounds $(ROUNDS)
	@scripts/kill/kill.py --ddl --rounds $(ROUNDS)
	@scripts/kill/kill.py --mixed --rounds $(ROUNDS)

# LEVEL: read-uncommitted, read-committed, loose-repeatable-read (snapshot isolation off), repeatable-read, serializable, or all
ENGINE ?= Sluice
LEVEL ?= all
COMMITS ?= 20000
ROWS ?= 16
CONNECTIONS ?= 32
KILLS ?= 2
NODES ?= 1
.PHONY: isolation
isolation: plugin
	@scripts/isolation.py --engine $(ENGINE) --level $(LEVEL) --commits $(COMMITS) --rows $(ROWS) --connections $(CONNECTIONS) \
	  --kills $(KILLS) --seed $(or $(SEED),1) --nodes $(NODES)

ALTER ?=
.PHONY: online-alter instant-alter
online-alter: plugin
	@scripts/online_alter.py $(or $(ALTER),--rounds 50)
	$(if $(ALTER),,@scripts/online_alter.py --table partitioned,foreign,virtual,unique --rows 200000 --rounds 20)

instant-alter: plugin
	@scripts/instant_alters.py $(ALTER)
	$(if $(ALTER),,@scripts/instant_alters.py --partitions 3)
	$(if $(ALTER),,@scripts/instant_alters.py --fixed)
	$(if $(ALTER),,@scripts/instant_alters.py --time-on 10000000)

.PHONY: replication long-reader buffering-cost monitoring-cost galera
galera: MINUTES := 5
galera: SST := both
galera: plugin sluice-backup
	@scripts/galera.py --engine $(ENGINE) --minutes $(MINUTES) --sst $(SST) $(if $(SEED),--seed $(SEED))

.PHONY: galera-transfers galera-rejoin
galera-transfers: plugin sluice-backup
	@scripts/galera_transfers.py $(TRANSFERS)

galera-rejoin: plugin sluice-backup
	@scripts/galera_rejoin.py $(BENCH)

.PHONY: sharding
sharding: plugin
	@scripts/sharding.py $(SHARDING)

replication: MINUTES := 10
replication: plugin
	@scripts/replica_order.py
	@scripts/replication.py --engine $(ENGINE) --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))

long-reader: plugin
	@scripts/bench/long_reader.py $(BENCH)

buffering-cost: plugin
	@scripts/bench/buffering.py $(BENCH)

monitoring-cost: plugin
	@scripts/bench/monitoring_cost.py $(BENCH)

faults: plugin
	@scripts/faults/faults.py $(ONLY)

ifdef SCHEDULES
# New ones each time: seeds from the clock on. SOAK: schedules, or families.
SOAK ?= schedules
soak: FIRST := $(shell date +%s)000000
soak: tools
	SLUICE_SEEDS=$(FIRST)-$$(($(FIRST) + $(SCHEDULES) - 1)) $(sim_tests) engine::tests::sim::$(SOAK) --nocapture
else
soak: plugin
	@scripts/kill/kill.py --minutes $(MINUTES)
	@scripts/kill/kill.py --ddl --minutes $(MINUTES)
	@scripts/kill/kill.py --mixed --minutes $(MINUTES)
endif

# ---- the simulation (engine/src/engine/tests/sim/mod.rs) ------------------------------------------------------------
# Small pages, so that splits, merges and overflow come early; optimised, with every assert on.
sim_tests = cargo test --locked --quiet --profile sim -p sluice --lib --features tiny-pages --

.PHONY: sim mutants plugin-mutants
sim: tools
	$(sim_tests) engine::tests::sim --nocapture

mutants: tools
	@scripts/mutants "$$(cargo test --locked --profile sim -p sluice --lib --features tiny-pages,mutants --no-run \
	  --message-format=json | sed -n 's/.*"executable":"\([^"]*\)".*/\1/p' | tail -1)"

plugin-mutants: plugin
	@$(MAKE) --no-print-directory MUTANTS=1 plugin
	@scripts/plugin_mutants

# The models are a part of make test. Miri and the thread sanitizer need Rust nightly, which rustup installs.
RACES ?=
.PHONY: races
races: tools
	@scripts/races $(RACES)

fuzz: plugin
	@scripts/fuzz/fuzz.py --minutes $(MINUTES) $(if $(SEED),--seed $(SEED))
	@scripts/fuzz/crowd.py

.PHONY: settings
settings: tools
	SLUICE_WRITE_SETTINGS=1 cargo test --locked --quiet -p sluice-ffi --test settings

.PHONY: backup-rounds
backup-rounds: plugin sluice-backup
	@scripts/backup_rounds.py --rounds $(ROUNDS)

.PHONY: check
check: tools
	scripts/bench/pages.py --check
	cargo fmt --all --check
	cargo fmt --all --check --manifest-path lab/Cargo.toml
	cargo clippy --locked --workspace --all-targets -- -D warnings
	cargo clippy --locked --workspace --all-targets --manifest-path lab/Cargo.toml --target-dir build/lab/target -- -D warnings
	$(if $(wildcard engine/tests/tidy/main.rs),cargo test --locked -p sluice --test tidy)

# ---- cleaning --------------------------------------------------------------------------------------------------------
.PHONY: clean distclean
# The servers' folders stay: make server's may hold somebody's data. So do MariaDB and its sources, which may not be had again.
clean:
	rm -rf build/obj build/*.so build/for-*/obj build/for-*/*.so target

distclean: clean
	rm -rf build
