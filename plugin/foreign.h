/* Foreign keys between the server and the engine: as the engine has them, as people write them, and
   what the server's statements mean to them. The engine checks rows and carries out cascades; the
   rows that a cascade makes come from foreign_rows.cc.
   Called by: ddl, inplace, hton, ha_sluice, errors. */
#ifndef SLUICE_FOREIGN_H
#define SLUICE_FOREIGN_H
#include "compat.h"
#include "innodb_foreign.h"
#include "sluice_abi.h"
#include <memory>
#include <string>
#include <vector>

namespace sluice {

/* A foreign key as the engine gives it. */
struct ForeignKey
{
  std::string name;                     // "database/constraint", the database as in a path
  std::string child, parent;            // paths
  std::vector<std::string> columns, parent_columns;
  std::vector<uint8_t> child_nullable, parent_nullable;
  std::string child_index, parent_index; // the latter is empty if it has no parent now
  std::string misfit;                   // why its parent does not fit
  uint8_t on_delete, on_update;         // SLC_FOREIGN_*

  std::string constraint() const { return name.substr(name.find('/') + 1); }
};

/* which: SLC_FOREIGN_*. In the order of the definition. */
std::vector<ForeignKey> foreign_keys(uint32_t which, const char *table);
/* The same by name, as InnoDB shows them. */
std::vector<ForeignKey> foreign_keys_by_name(uint32_t which, const char *table);
/* The columns of the table that are part of its own foreign keys, or of those of its children.
   Not of those that the statement drops. with_unbound: also of those for which the table has no
   index. */
std::vector<std::string> foreign_columns(const TABLE *table, const Alter_info *alter, bool with_unbound);
/* A table that a statement is making, or has moved out of the way. */
bool is_work_table(const std::string &path);
/* The ALTER TABLE drops this foreign key of its table. */
bool drops_foreign_key(const Alter_info *alter, const std::string &constraint);
/* CONSTRAINT ... REFERENCES ... */
void append_foreign_key(THD *thd, String *to, const ForeignKey &key);

/* Of this thread: notes the foreign key that the engine's last error is about. */
void note_foreign_fault();
void note_foreign_fault(const std::string &child, const std::string &name);
/* The same with the child, as in the messages of errors 1451 and 1452. */
void append_foreign_fault(THD *thd, String *to);
/* A cascade made a duplicate: in which child, of which index. False: that is gone. */
bool foreign_duplicate(std::string *child, std::string *index);
/* The noted one, if it is there still. */
std::unique_ptr<ForeignKey> noted_foreign_key();

/* A warning that tells why, before the server's own message of a number alone. */
void warn_of_foreign_key(THD *thd, int code, const char *why);
/* Checks are off, and a table was created: of the foreign keys that name it and that it does not
   fit. */
void warn_of_misfits(THD *thd, const char *parent);

/* Keeps the noted foreign key and the statement for SHOW ENGINE STATUS; foreign_table.cc. */
void keep_latest_foreign_error(THD *thd, const char *what);
std::string latest_foreign_error();

bool checks_foreign_keys(const THD *thd);

/* As InnoDB does before an ALTER in place: a column that a foreign key sets to NULL, or may get
   NULL from its parent, must not become NOT NULL. True: the user knows. */
bool refuse_not_null(THD *thd, const char *table, const Alter_inplace_info *info);
/* As the server does before it copies: a column whose NULL would go to children that are NOT NULL
   must not become NULL. */
bool refuse_nullable(THD *thd, const char *table, const Alter_inplace_info *info);
/* No column of a foreign key gets another type. renamed_alone: only columns that get a new name are
   looked at. */
bool refuse_other_type(const char *table, const Alter_inplace_info *info, bool renamed_alone);
/* No column of a foreign key that stays is dropped. True: the user knows. */
bool refuse_dropped(const char *table, const Alter_inplace_info *info);

/* slc_foreign_def with the memory that they point into. */
class ForeignDefinition
{
public:
  ForeignDefinition()= default;
  ForeignDefinition(const ForeignDefinition &)= delete;
  ~ForeignDefinition();
  /* Of the table `name` that is created. HA_ERR_ code; the warning with the reason is pushed. */
  int of_create(THD *thd, const char *name, const TABLE *form, const HA_CREATE_INFO *info);
  /* What is there after an ALTER TABLE in place: of the table `name`, `from` before it. `renamed`:
     pairs of columns' names, old and new. */
  int of_alter(THD *thd, const char *name, const TABLE *altered, const HA_CREATE_INFO *info, const Alter_info *alter,
               const std::vector<std::string> &renamed);

  const slc_foreign_def *defs();
  uint32_t count() const { return static_cast<uint32_t>(m_keys.size()); }
  /* So many of them, the first ones, were there before the statement. */
  uint32_t kept() const { return m_kept; }
  const ForeignKey *named(const std::string &name) const;
  /* Why the foreign key fits no index of its parent, which the engine tells by indexes alone: the
     parent lacks a column. Empty: it has all. */
  static std::string missing_parent_column(THD *thd, const std::string &name);
  /* After HA_ERR_FOUND_DUPP_KEY: with its database. */
  std::string name_given_twice() const;
  /* The table whose place the created one takes; NULL: none. */
  const char *replaces() const { return m_replaces.empty() ? nullptr : m_replaces.c_str(); }

private:
  int add_new(THD *thd, const char *name, const std::string &named, const TABLE *form, const Alter_info *alter);
  int replace_by_new(THD *thd, const char *name, const std::string &named, const TABLE *form, const Alter_info *alter);
  int check_names(THD *thd, size_t old_count) const;
  std::vector<ForeignKey> m_keys;
  const TABLE *m_form= nullptr;         // of the child
  uint32_t m_kept= 0;
  bool m_in_place= false;
  std::string m_replaces;
#ifdef SLUICE_STAND_IN
  std::unique_ptr<ForeignStatement> m_statement;
#endif
  std::vector<slc_foreign_def> m_defs;
  std::vector<std::vector<const char *>> m_columns;
};

class Codec;
class IndexParts;

/* Columns that get new names in an ALTER TABLE in place: pairs, old and new. */
std::vector<std::string> renamed_columns(const Alter_inplace_info *info);

/* What an ALTER TABLE in place means to foreign keys, as a part of its change of the catalog. */
class ForeignAlter
{
public:
  ForeignAlter();
  ~ForeignAlter();
  ForeignAlter(const ForeignAlter &)= delete;
  /* HA_ERR_ code. */
  int prepare(THD *thd, const char *table, const TABLE *altered, const Alter_inplace_info *info);
  /* codec: of the new definition. */
  void put_into(slc_index_change *change, const TABLE *altered, const Codec &codec);
  bool tell(slc_err error, const TABLE *table, const Alter_inplace_info *info) const;

private:
  ForeignDefinition m_foreign;
  bool m_sets_foreign= false, m_is_unchecked= false;
  std::vector<std::string> m_renamed;   // pairs
  std::vector<const char *> m_renamed_names;
  std::unique_ptr<IndexParts> m_parts;
  std::vector<slc_index_def> m_keys;
};

/* An error of an ALTER in place for which InnoDB has a message of its own: as InnoDB tells it.
   False: it has none. `foreign`: of the altered table. */
bool tell_foreign_error(slc_err error, const ForeignDefinition &foreign, const TABLE *table, const Alter_inplace_info *info);

/* slc_rename with the memory that it points into. */
class ForeignRename
{
public:
  ForeignRename(THD *thd, const char *from, const char *to);
  ForeignRename(const ForeignRename &)= delete;
  const slc_rename &mode() const { return m_mode; }
  /* HA_ERR_ code: a new name of a foreign key is taken. */
  int check_names(THD *thd) const;

private:
  static std::string replaced_by(THD *thd, const char *name);
  void rename_keys(const char *from, const char *to);
  slc_rename m_mode{};
  std::vector<std::string> m_new_names;
  std::vector<const char *> m_names;
  std::string m_replaces;
  std::string m_from;
};

/* As slc_table_drop() takes it: which children may lose the table when this statement drops or
   empties it. */
class Orphans
{
public:
  Orphans(const THD *thd, const char *table);
  const char *prefix() const { return m_any ? m_prefix.c_str() : nullptr; }

private:
  bool m_any;
  std::string m_prefix;
};

} // namespace sluice
#endif
