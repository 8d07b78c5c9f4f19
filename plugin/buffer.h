/* Buffer: bytes that grow, without the cost of filling what is about to be written. Kept by a
   handler from row to row, so that a row costs no allocation. Called by: codec and the handler
   files. */
#ifndef SLUICE_BUFFER_H
#define SLUICE_BUFFER_H
#include "sluice_abi.h"
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>

namespace sluice {

/* Of the size of two words at most, and of one at least: the first word and the last one, which may
   overlap. */
template <typename Word> inline void copy_ends(unsigned char *to, const unsigned char *from, size_t size)
{
  Word head, tail;
  memcpy(&head, from, sizeof head);
  memcpy(&tail, from + size - sizeof tail, sizeof tail);
  memcpy(to, &head, sizeof head);
  memcpy(to + size - sizeof tail, &tail, sizeof tail);
}

inline bool same_bytes(slc_bytes left, slc_bytes right)
{
  return left.len == right.len && (!left.len || !memcmp(left.ptr, right.ptr, left.len));
}

/* memcpy of what is nearly always a few bytes, a key or a number: for those a call costs more than
   the copy. */
inline void copy_few(unsigned char *to, const unsigned char *from, size_t size)
{
  if (size > 16)
    memcpy(to, from, size);
  else if (size >= sizeof(uint64_t))
    copy_ends<uint64_t>(to, from, size);
  else if (size >= sizeof(uint32_t))
    copy_ends<uint32_t>(to, from, size);
  else
    for (; size; size--)
      *to++= *from++;
}

class Buffer
{
public:
  Buffer()= default;
  Buffer(const Buffer &)= delete;
  Buffer &operator=(const Buffer &)= delete;
  ~Buffer() { std::free(m_data); }

  void clear() { m_length= 0; }
  size_t length() const { return m_length; }
  unsigned char *data() { return m_data; }
  const unsigned char *data() const { return m_data; }
  slc_bytes bytes() const { return {m_data, m_length}; }
  slc_bytes bytes(size_t offset, size_t length) const { return {m_data + offset, length}; }

  /* Room for `size` bytes more; returns where they begin. Earlier pointers into the buffer are
     void. */
  unsigned char *reserve(size_t size)
  {
    if (m_length + size > m_size)
      grow(m_length + size);
    return m_data + m_length;
  }
  void end_at(const unsigned char *end) { m_length= end - m_data; }
  void cut(size_t length) { m_length= length; }
  void append(const void *from, size_t size)
  {
    if (!size)
      return;
    copy_few(reserve(size), static_cast<const unsigned char *>(from), size);
    m_length+= size;
  }
  void append(slc_bytes from) { append(from.ptr, from.len); }
  /* After a statement with one very long row: give the memory back. */
  void release_if_larger(size_t size)
  {
    if (m_size <= size)
      return;
    std::free(m_data);
    m_data= nullptr;
    m_size= m_length= 0;
  }

private:
  void grow(size_t need)
  {
    size_t size= m_size ? m_size * 2 : 512;
    if (size < need)
      size= need;
    void *data= std::realloc(m_data, size);
    if (!data)
      throw std::bad_alloc();
    m_data= static_cast<unsigned char *>(data);
    m_size= size;
  }
  unsigned char *m_data= nullptr;
  size_t m_length= 0, m_size= 0;
};

} // namespace sluice
#endif
