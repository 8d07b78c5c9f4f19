/* The parts of an index's keys, as the engine gets them: the shapes of the parts, and for foreign
   keys their columns and domains. Called by: ddl, inplace, statistics. */
#ifndef SLUICE_KEY_PARTS_H
#define SLUICE_KEY_PARTS_H
#include "compat.h"
#include "codec.h"
#include "sluice_abi.h"
#include <string>
#include <vector>

namespace sluice {

slc_key_part part_shape(const KeyPart &part);

/* What the part's values are; see slc_index_part. */
std::string domain_of(const TABLE *table, const Codec &codec, const KeyPart &part);

/* The parts of the clustered key (none, if it is hidden) and of the secondary indexes, in the
   engine's order, with the memory that they point into. Names of columns are the TABLE's. */
class IndexParts
{
public:
  IndexParts(const TABLE *table, const Codec &codec);
  IndexParts(const IndexParts &)= delete;
  /* 0 = clustered, i + 1 = secondary i. */
  const std::vector<slc_index_part> &of(uint engine_index) const { return m_parts[engine_index]; }

private:
  std::vector<std::vector<slc_index_part>> m_parts;
  std::vector<std::vector<std::string>> m_domains;
};

} // namespace sluice
#endif
