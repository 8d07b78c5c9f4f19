-- A monitoring application in the style of installers that write all tables first, then the first rows, and the foreign keys in
-- statements of their own. Later versions of it change the schema in place.
CREATE TABLE hosts (
  hostid BIGINT UNSIGNED NOT NULL,
  host VARCHAR(128) DEFAULT '' NOT NULL,
  status INTEGER DEFAULT '0' NOT NULL,
  proxyid BIGINT UNSIGNED NULL,
  templateid BIGINT UNSIGNED NULL,
  PRIMARY KEY (hostid)
) ENGINE=InnoDB;
CREATE INDEX hosts_1 ON hosts (host);
CREATE INDEX hosts_2 ON hosts (proxyid);
CREATE TABLE items (
  itemid BIGINT UNSIGNED NOT NULL,
  hostid BIGINT UNSIGNED NOT NULL,
  masterid BIGINT UNSIGNED NULL,
  key_ VARCHAR(255) DEFAULT '' NOT NULL,
  delay VARCHAR(32) DEFAULT '0' NOT NULL,
  params TEXT NOT NULL,
  PRIMARY KEY (itemid)
) ENGINE=InnoDB;
CREATE UNIQUE INDEX items_1 ON items (hostid, key_(200));
CREATE TABLE triggers_of_items (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT,
  itemid BIGINT UNSIGNED NOT NULL,
  expression VARCHAR(2048) DEFAULT '' NOT NULL,
  PRIMARY KEY (id),
  UNIQUE KEY triggers_1 (itemid, expression(100))
) ENGINE=InnoDB;
CREATE TABLE history (
  itemid BIGINT UNSIGNED NOT NULL,
  clock INTEGER DEFAULT '0' NOT NULL,
  value DOUBLE DEFAULT '0.0000' NOT NULL,
  KEY history_1 (itemid, clock)
);
CREATE TABLE host_tags (
  hostid BIGINT UNSIGNED NOT NULL,
  tag VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL,
  value VARCHAR(64) DEFAULT '' NOT NULL,
  PRIMARY KEY (hostid, tag)
) ENGINE=InnoDB;
CREATE TABLE tag_uses (
  useid INTEGER NOT NULL AUTO_INCREMENT PRIMARY KEY,
  hostid BIGINT UNSIGNED NULL,
  tag VARCHAR(64) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NULL,
  note TINYTEXT
) ENGINE=InnoDB;

START TRANSACTION;
INSERT INTO hosts (hostid, host, status, proxyid, templateid) VALUES ('1', 'proxy', '5', NULL, NULL);
INSERT INTO hosts (hostid, host, status, proxyid, templateid) VALUES ('10', 'template', '3', NULL, NULL);
INSERT INTO hosts (hostid, host, status, proxyid, templateid) VALUES ('100', 'server', '0', '1', '10');
INSERT INTO items (itemid, hostid, masterid, key_, delay, params) VALUES ('1', '10', NULL, 'cpu', '1m', '');
INSERT INTO items (itemid, hostid, masterid, key_, delay, params) VALUES ('2', '100', NULL, 'cpu', '1m', 'a\nb');
INSERT INTO items (itemid, hostid, masterid, key_, delay, params) VALUES ('3', '100', '2', 'cpu[idle]', '0', '');
INSERT INTO triggers_of_items (itemid, expression) VALUES ('1', 'last(cpu) > 5'), ('3', 'last(idle) < 1');
INSERT INTO history VALUES ('2', 1700000000, 0.25), ('2', 1700000060, 0.5);
INSERT INTO host_tags VALUES ('100', 'role', 'db'), ('100', 'Role', 'web'), ('10', 'role', '');
INSERT INTO tag_uses (hostid, tag, note) VALUES ('100', 'role', 'both'), ('100', NULL, 'half'), (NULL, NULL, 'none');
COMMIT;

ALTER TABLE hosts ADD CONSTRAINT c_hosts_1 FOREIGN KEY (proxyid) REFERENCES hosts (hostid);
ALTER TABLE hosts ADD CONSTRAINT c_hosts_2 FOREIGN KEY (templateid) REFERENCES hosts (hostid) ON DELETE CASCADE;
ALTER TABLE items ADD CONSTRAINT c_items_1 FOREIGN KEY (hostid) REFERENCES hosts (hostid) ON DELETE CASCADE,
                  ADD CONSTRAINT c_items_2 FOREIGN KEY (masterid) REFERENCES items (itemid) ON DELETE CASCADE;
ALTER TABLE triggers_of_items ADD CONSTRAINT c_triggers_1 FOREIGN KEY (itemid) REFERENCES items (itemid) ON DELETE CASCADE;
ALTER TABLE host_tags ADD CONSTRAINT c_host_tags_1 FOREIGN KEY (hostid) REFERENCES hosts (hostid) ON DELETE CASCADE ON UPDATE CASCADE;
ALTER TABLE tag_uses ADD CONSTRAINT c_tag_uses_1 FOREIGN KEY (hostid, tag) REFERENCES host_tags (hostid, tag)
                     ON DELETE SET NULL ON UPDATE SET NULL;

-- Definitions that do not fit: the parent's index, types, collations, SET NULL of a column that is NOT NULL, a name that is taken.
ALTER TABLE history ADD CONSTRAINT c_history_1 FOREIGN KEY (clock) REFERENCES items (itemid);
ALTER TABLE history ADD CONSTRAINT c_history_1 FOREIGN KEY (itemid) REFERENCES items (hostid, key_);
ALTER TABLE history ADD CONSTRAINT c_history_1 FOREIGN KEY (itemid) REFERENCES items (itemid) ON DELETE SET NULL;
ALTER TABLE history ADD CONSTRAINT c_history_1 FOREIGN KEY (itemid) REFERENCES nothing (itemid);
ALTER TABLE history ADD CONSTRAINT c_items_1 FOREIGN KEY (itemid) REFERENCES items (itemid);
ALTER TABLE history ADD CONSTRAINT c_history_1 FOREIGN KEY (itemid) REFERENCES items (itemid), ADD KEY history_2 (clock);
INSERT INTO history VALUES ('77', 1700000000, 1);
ALTER TABLE history DROP KEY history_1;
ALTER TABLE history DROP FOREIGN KEY c_history_1;
ALTER TABLE history DROP FOREIGN KEY c_history_1;
INSERT INTO history VALUES ('77', 1700000000, 1);
ALTER TABLE history ADD CONSTRAINT c_history_1 FOREIGN KEY (itemid) REFERENCES items (itemid);

-- An upgrade: columns renamed and made wider, indexes exchanged, tables renamed and rebuilt.
ALTER TABLE tag_uses CHANGE note remark VARCHAR(500) NULL;
ALTER TABLE items CHANGE masterid master_itemid BIGINT UNSIGNED NULL;
ALTER TABLE triggers_of_items ADD KEY triggers_2 (itemid), DROP KEY triggers_1;
ALTER TABLE triggers_of_items DROP KEY triggers_2;
RENAME TABLE triggers_of_items TO triggers_new;
ALTER TABLE hosts ADD COLUMN uuid CHAR(32) DEFAULT '' NOT NULL AFTER host, FORCE;
ALTER TABLE hosts DROP PRIMARY KEY;
ALTER TABLE host_tags MODIFY tag VARCHAR(255) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL;
ALTER TABLE hosts DROP FOREIGN KEY c_hosts_1, DROP KEY hosts_2;

DELETE FROM host_tags WHERE hostid = '100' AND tag = 'role';
UPDATE hosts SET hostid = '1000' WHERE hostid = '10';
DELETE FROM hosts WHERE hostid = '10';
SELECT hostid, host, templateid FROM hosts ORDER BY hostid;
SELECT itemid, hostid, master_itemid FROM items ORDER BY itemid;
SELECT itemid, expression FROM triggers_new ORDER BY id;
SELECT * FROM host_tags ORDER BY hostid, tag;
SELECT * FROM tag_uses ORDER BY useid;
