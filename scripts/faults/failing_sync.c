/* fdatasync() that fails with EIO for files whose path contains $FAILING_SYNC_FILES, while the file $FAILING_SYNC_SWITCH exists. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int fails(int fd)
{
  const char *which = getenv("FAILING_SYNC_FILES"), *on = getenv("FAILING_SYNC_SWITCH");
  char link[64], path[4096];
  if (!which || !on || access(on, F_OK))
    return 0;
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  ssize_t length = readlink(link, path, sizeof path - 1);
  if (length <= 0)
    return 0;
  path[length] = 0;
  return strstr(path, which) != NULL;
}

int fdatasync(int fd)
{
  static int (*real)(int);
  if (!real)
    real = (int (*)(int)) dlsym(RTLD_NEXT, "fdatasync");
  if (fails(fd))
  {
    errno = EIO;
    return -1;
  }
  return real(fd);
}
