"""The applications that `make apps` loads: the Debian package, its SQL files in their order, and what is changed in the text.

Paths may be patterns; the files of one pattern run in the order of their names. A path that ends in .php is a PHP source that
holds the SQL as strings. Changes are pairs of a regular expression and its replacement, and apply to both engines alike.

What an application needs and Sluice refuses by name (docs/guide/sql-features.md) is stated here, as a regular expression of the
differences that come of it.
"""
import re
from dataclasses import dataclass

# Some schemas name MyISAM for every table. On both sides the engine that is compared takes its place.
NO_MYISAM = ((r"\b(?:ENGINE|TYPE)\s*=\s*MyISAM\b", "ENGINE=InnoDB"),)


@dataclass(frozen=True)
class Application:
    name: str
    package: str
    files: tuple
    changes: tuple = ()
    collation: str = "utf8mb4_general_ci"
    stated: str = ""

    @property
    def charset(self):
        return self.collation.split("_")[0]

    def states(self, difference):
        return bool(self.stated) and re.match(self.stated, difference) is not None


RADIUS = "etc/freeradius/3.0/mods-config/sql/"
DBCONFIG = "usr/share/dbconfig-common/data/"
EJABBERD = "usr/share/ejabberd/sql/"
EJABBERD_FULLTEXT = r"only Sluice refuses 1: 1214 .* FULLTEXT indexes|archive: (.*FULLTEXT.*|COLUMNS (lacks|has also) \d+, txt, .*)$"
MEDIAWIKI = "usr/share/mediawiki/"
# What MediaWiki and WordPress put into the place of these variables of theirs. WordPress makes its users' table in one of two forms.
MEDIAWIKI_TABLES = ((r"/\*\$wgDBTableOptions\*/", "ENGINE=InnoDB, DEFAULT CHARSET=binary"),)
WORDPRESS_NAMES = ((r"\$users_multi_table = \"CREATE TABLE", ""), (r"\$wpdb->", "wp_"), (r"\$charset_collate", "DEFAULT CHARACTER SET utf8mb4"),
                   (r"\$max_index_length", "191"))

APPLICATIONS = (
    Application("Bacula", "bacula-director-mysql", (DBCONFIG + "bacula-director-mysql/install/mysql",)),
    Application("Cacti", "cacti", ("usr/share/cacti/conf_templates/cacti.sql",)),
    Application("ejabberd", "ejabberd", (EJABBERD + "mysql.sql",), stated=EJABBERD_FULLTEXT),
    Application("ejabberd, new schema", "ejabberd", (EJABBERD + "mysql.new.sql",), stated=EJABBERD_FULLTEXT),
    Application("ejabberd, old to new", "ejabberd", (EJABBERD + "mysql.sql", EJABBERD + "mysql.old-to-new.sql"), stated=EJABBERD_FULLTEXT),
    Application("FreeRADIUS", "freeradius-config", tuple(RADIUS + path for path in (
        "main/mysql/schema.sql", "main/mysql/extras/wimax/schema.sql", "main/mysql/process-radacct.sql", "cui/mysql/schema.sql",
        "dhcp/mysql/schema.sql", "ippool/mysql/schema.sql", "ippool/mysql/procedure.sql", "ippool-dhcp/mysql/schema.sql",
        "ippool-dhcp/mysql/procedure.sql", "moonshot-targeted-ids/mysql/schema.sql"))),
    Application("Gammu", "gammu-smsd", ("usr/share/doc/gammu-smsd/examples/mysql.sql*",), NO_MYISAM),
    Application("Glewlwyd", "glewlwyd", (DBCONFIG + "glewlwyd/install/mysql",)),
    Application("Icinga 2 IDO", "icinga2-ido-mysql", ("usr/share/icinga2-ido-mysql/schema/mysql.sql",)),
    Application("Icinga DB", "icingadb", ("usr/share/icingadb/schema/mysql/schema.sql",)),
    Application("Icinga Web 2", "icingaweb2", ("usr/share/icingaweb2/schema/mysql.schema.sql",)),
    Application("jabberd2", "jabberd2", ("usr/share/doc/jabberd2/db-setup.mysql*",)),
    Application("Kamailio", "kamailio-mysql-modules", ("usr/share/kamailio/mysql/standard-create.sql", "usr/share/kamailio/mysql/*-create.sql")),
    Application("Kea", "kea-admin", ("usr/share/kea/scripts/mysql/dhcpdb_create.mysql",)),
    Application("MediaWiki", "mediawiki", (
        MEDIAWIKI + "maintenance/tables-generated.sql", MEDIAWIKI + "maintenance/tables.sql",
        MEDIAWIKI + "extensions-core/*/sql/mysql/tables-generated.sql",
        MEDIAWIKI + "extensions-core/*/db_patches/mysql/tables-generated.sql"), MEDIAWIKI_TABLES),
    Application("OAR", "oar-server", tuple("usr/lib/oar/database/" + name for name in (
        "mysql_structure.sql", "default_data.sql", "mysql_default_admission_rules.sql"))),
    Application("OCS Inventory", "ocsinventory-reports", ("usr/share/ocsinventory-reports/files/ocsbase.sql",)),
    Application("OpenDMARC", "opendmarc", (DBCONFIG + "opendmarc/install/mysql",)),
    Application("phpMyAdmin", "phpmyadmin", ("usr/share/phpmyadmin/sql/create_tables.sql",), collation="utf8mb3_bin"),
    Application("pnopaste", "pnopaste", (DBCONFIG + "pnopaste/install/mysql",)),
    Application("PowerDNS", "pdns-backend-mysql", tuple(f"usr/share/pdns-backend-mysql/schema/{name}.mysql.sql" for name in (
        "schema", "enable-foreign-keys"))),
    Application("Prelude", "libpreludedb7-mysql", ("usr/share/libpreludedb/classic/mysql.sql",)),
    Application("Request Tracker 4", "request-tracker4", ("usr/share/request-tracker4/etc/schema.mysql",)),
    Application("Request Tracker 5", "request-tracker5", ("usr/share/request-tracker5/etc/schema.mysql",)),
    Application("Roundcube", "roundcube-core", (DBCONFIG + "roundcube/install/mysql",)),
    Application("rsyslog", "rsyslog-mysql", (DBCONFIG + "rsyslog-mysql/install/mysql",)),
    Application("TANGO", "tango-db", ("usr/share/tango-db/create_db_tables.sql", "usr/share/tango-db/stored_proc.sql"),
                NO_MYISAM + ((r"\btango\.", ""),)),
    Application("Tiny Tiny RSS", "tt-rss", ("usr/share/tt-rss/schema/ttrss_schema_mysql.sql",)),
    Application("ulogd2", "ulogd2", ("usr/share/doc/ulogd2/mysql-ulogd2.sql*",)),
    Application("ulogd2, flat", "ulogd2", ("usr/share/doc/ulogd2/mysql-ulogd2-flat.sql*",)),
    Application("WordPress", "wordpress", ("usr/share/wordpress/wp-admin/includes/schema.php",), WORDPRESS_NAMES),
    Application("Zabbix", "zabbix-server-mysql", tuple(f"usr/share/zabbix-server-mysql/{name}.sql*" for name in (
        "schema", "images", "data", "double", "history_pk_prepare")), collation="utf8mb4_bin"),
    Application("ZoneMinder", "zoneminder", ("usr/share/zoneminder/db/zm_create.sql",)),
    Application("Zoph", "zoph", (DBCONFIG + "zoph/install/mysql",)),
)
