/* The server's headers, and the only place that asks which server version they are.

   Every other file of plugin/ includes this one first. Where a later MariaDB changed a signature
   that the plugin overrides or calls, the difference is a macro or a small inline function here. No
   other file has a conditional on MYSQL_VERSION_ID. Written and tested against 10.11; the 11.x
   branches hold what is known of them.
   Used by: every file of plugin/. */
#ifndef SLUICE_COMPAT_H
#define SLUICE_COMPAT_H

#ifndef MYSQL_SERVER
#define MYSQL_SERVER 1
#endif
#include <my_global.h>
#include "sql_priv.h"
#include "sql_plugin.h"
#include "unireg.h"
#include "sql_class.h"
#include "sql_table.h"
#include "sql_alter.h"
#include "field.h"
#include "handler.h"
#include "key.h"
#include "log.h"
#include "set_var.h"
#include "table.h"
#include <mysql/plugin.h>
#include <mysql/psi/mysql_thread.h>
#include <mysqld_error.h>
#include <string>

/* The name of the storage engine, of its plugin and of its variables' prefix; a build may choose
   another. */
#ifndef SLUICE_PLUGIN_NAME
#define SLUICE_PLUGIN_NAME SLUICE
#endif
#define SLUICE_STRING_(x) #x
#define SLUICE_STRING(x) SLUICE_STRING_(x)
#define SLUICE_ENGINE_NAME SLUICE_STRING(SLUICE_PLUGIN_NAME)
/* Of the tables of INFORMATION_SCHEMA. SLUICE_STAND_IN: the plugin has InnoDB's name. */
#ifdef SLUICE_STAND_IN
#define SLUICE_TABLE_PREFIX "INNODB"
#else
#define SLUICE_TABLE_PREFIX SLUICE_ENGINE_NAME
#endif

/* Transaction callbacks of the handlerton take the handlerton itself up to 11.7; later they do
   not. */
#if MYSQL_VERSION_ID < 110800
#define SLUICE_HTON_ARG handlerton *,
#define SLUICE_COMMIT_BY_XID(hton, xid) (hton)->commit_by_xid(hton, xid)
#else
#define SLUICE_HTON_ARG
#define SLUICE_COMMIT_BY_XID(hton, xid) (hton)->commit_by_xid(xid)
#endif

/* The cost model of 11.0 took read_time() and scan_time() as doubles away. */
#if MYSQL_VERSION_ID < 110000
#define SLUICE_COSTS_ARE_DOUBLES 1
#define SLUICE_COST_DECLARATIONS                                                                                       \
  double scan_time() override;                                                                                         \
  double read_time(uint index, uint ranges, ha_rows rows) override;
#define SLUICE_MRR_INFO_CONST_ARGUMENTS                                                                                \
  uint index, RANGE_SEQ_IF *seq, void *init, uint ranges, uint *buffer_size, uint *flags, Cost_estimate *cost
#define SLUICE_MRR_LIMIT
#else
#define SLUICE_COST_DECLARATIONS IO_AND_CPU_COST scan_time() override;
#define SLUICE_MRR_INFO_CONST_ARGUMENTS                                                                                \
  uint index, RANGE_SEQ_IF *seq, void *init, uint ranges, uint *buffer_size, uint *flags, ha_rows limit,               \
  Cost_estimate *cost
#define SLUICE_MRR_LIMIT limit,
#endif
#define SLUICE_MRR_INFO_CONST_DECLARATION ha_rows multi_range_read_info_const(SLUICE_MRR_INFO_CONST_ARGUMENTS) override;

/* Whether REPEATABLE READ is snapshot isolation unless a session says otherwise: as InnoDB of this
   server has it. */
#if MYSQL_VERSION_ID < 110602
#define SLUICE_SNAPSHOT_ISOLATION_DEFAULT false
#else
#define SLUICE_SNAPSHOT_ISOLATION_DEFAULT true
#endif

/* Exported by the server for engines, but declared in no header. */
extern "C" int thd_rpl_deadlock_check(MYSQL_THD thd, MYSQL_THD other_thd);
extern void ignore_db_dirs_append(const char *dirname);
#if MYSQL_VERSION_ID >= 110800
extern st_plugin_int *mhnsw_plugin;
#endif

namespace sluice {

/* Arguments of extra() around the filling of a new table. 11.8.6 has the older names; both leave
   out ALTER IGNORE. */
#if MYSQL_VERSION_ID < 110000
enum { EXTRA_BEGIN_COPY= HA_EXTRA_BEGIN_COPY, EXTRA_END_COPY= HA_EXTRA_END_COPY, EXTRA_ABORT_COPY= HA_EXTRA_ABORT_COPY };
#else
enum
{
  EXTRA_BEGIN_COPY= HA_EXTRA_BEGIN_ALTER_COPY,
  EXTRA_END_COPY= HA_EXTRA_END_ALTER_COPY,
  EXTRA_ABORT_COPY= HA_EXTRA_ABORT_ALTER_COPY
};
#endif

/* Weights of a string. Later servers return a struct that also carries warnings. */
inline size_t collation_weights(CHARSET_INFO *cs, uchar *to, size_t to_size, const uchar *from, size_t length,
                                uint flags)
{
#if MYSQL_VERSION_ID < 110500
  return cs->coll->strnxfrm(cs, to, to_size, UINT_MAX32, from, length, flags);
#else
  return cs->coll->strnxfrm(cs, to, to_size, UINT_MAX32, from, length, flags).m_result_length;
#endif
}

/* As the server compares names of keys, columns and constraints: a table may have two that differ
   in an accent. */
inline bool same_name(const LEX_CSTRING &a, const LEX_CSTRING &b)
{
#if MYSQL_VERSION_ID < 110500
  return !my_strcasecmp(system_charset_info, a.str, b.str);
#else
  return system_charset_info->streq(a, b);
#endif
}

inline bool same_name(const LEX_CSTRING &a, const std::string &b) { return same_name(a, LEX_CSTRING{b.c_str(), b.size()}); }

inline bool same_name(const std::string &a, const std::string &b) { return same_name(LEX_CSTRING{a.c_str(), a.size()}, b); }

/* A name in small letters. */
inline std::string in_small_letters(const LEX_CSTRING &name)
{
  char small[NAME_LEN + 1];
#if MYSQL_VERSION_ID < 110500
  strmake(small, name.str, sizeof small - 1);
  my_casedn_str(system_charset_info, small);
#else
  system_charset_info->casedn_z(name.str, name.length, small, sizeof small);
#endif
  return small;
}

/* The engine of a table; null if there is no such table, or its engine is not known. */
inline handlerton *engine_of_table(THD *thd, const LEX_CSTRING &db, const LEX_CSTRING &table)
{
  handlerton *found= nullptr;
#if MYSQL_VERSION_ID < 110000
  const bool exists= ha_table_exists(thd, &db, &table, nullptr, nullptr, &found);
#else
  const bool exists= ha_table_exists(thd, &db, &table, nullptr, &found);
#endif
  return exists ? found : nullptr;
}

/* What kind of index a key asks for, if not an ordinary one; null for those that the engine has. */
inline const char *special_index(const KEY &key)
{
#if MYSQL_VERSION_ID < 110700
  if (key.flags & HA_FULLTEXT)
    return "FULLTEXT";
  if (key.flags & HA_SPATIAL)
    return "SPATIAL";
#else
  if (key.algorithm == HA_KEY_ALG_FULLTEXT)
    return "FULLTEXT";
  if (key.algorithm == HA_KEY_ALG_RTREE)
    return "SPATIAL";
#endif
  return nullptr;
}

/* Vector indexes; vector_graph.h. Before 11.8 tables have none here. */
#if MYSQL_VERSION_ID < 110800
inline const KEY *vector_index(const TABLE *) { return nullptr; }
inline TABLE *graph_of(const TABLE *) { return nullptr; }
inline bool open_graph(TABLE *) { return false; }
inline bool searches_graph(const TABLE *) { return false; }
inline int next_of_graph_search(TABLE *) { return HA_ERR_END_OF_FILE; }
inline const void *graph_cache_in_transactions() { return nullptr; }
inline void commit_graph_cache(THD *, bool) {}
#else
/* Null: the table has none. */
inline const KEY *vector_index(const TABLE *table)
{
  return table->s->total_keys > table->s->keys ? &table->key_info[table->s->keys] : nullptr;
}
/* Null: it is not open. */
inline TABLE *graph_of(const TABLE *table) { return table->hlindex; }
/* False: it cannot be opened. */
inline bool open_graph(TABLE *table) { return !table->hlindex_open(table->s->keys); }
/* The server hands out the rows that a search in the graph has found. */
inline bool searches_graph(const TABLE *table) { return table->hlindex && table->hlindex->context; }
inline int next_of_graph_search(TABLE *table) { return table->hlindex_read_next(); }
/* What the server's cache of graphs is in the list of a transaction's participants. */
inline const void *graph_cache_in_transactions() { return mhnsw_plugin ? mhnsw_plugin->data : nullptr; }
/* The cache's part of a commit; the server's own call then finds nothing to do. */
inline void commit_graph_cache(THD *thd, bool all)
{
  if (mhnsw_plugin)
    (void) static_cast<transaction_participant *>(mhnsw_plugin->data)->commit(thd, all);
}
#endif

} // namespace sluice
#endif
