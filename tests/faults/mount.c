/* Shows the files below a folder as a mount of a network file system may: late, and for a while not at all.
 *
 * Preloaded into the processes of one host (LD_PRELOAD). Variables:
 *
 *   MOUNT_FOLDER  files below this folder lie on the mount
 *   MOUNT_PART    of these, only those whose path contains this text
 *   MOUNT_LATE_S  what others write is seen only so many seconds later; a new file appears as late
 *   MOUNT_GATE    while a file of this name exists, the server does not answer
 *   MOUNT_ERROR   the error of calls meanwhile; 0, the default, lets them hang until the server is back
 *
 * A file that is open for writing is never late: a host sees what it wrote itself.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SEEN = 256, BUCKETS = 1024 };

/* A size of a file, and since when it has had it. */
struct sight {
    double since;
    off_t size;
};

struct file {
    dev_t device;
    ino_t inode;
    int count;
    struct sight sights[SEEN];
    struct file *next;
};

static char folder[PATH_MAX];
static size_t folder_size;
static const char *gate, *part;
static int gate_error;
static double late_s;
static struct file *files[BUCKETS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("MOUNT_FOLDER"), *late = getenv("MOUNT_LATE_S"), *error = getenv("MOUNT_ERROR");
    if (!name) return;
    snprintf(folder, sizeof folder, "%s/", name);
    folder_size = strlen(folder);
    late_s = late ? atof(late) : 0;
    gate = getenv("MOUNT_GATE");
    part = getenv("MOUNT_PART");
    gate_error = error ? atoi(error) : 0;
}

/* Whether an open regular file lies on the mount. */
static int is_here(int file, struct stat *found) {
    char link[40], path[PATH_MAX];
    if (!folder_size || file < 0 || fstat(file, found) || !S_ISREG(found->st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, path, sizeof path - 1);
    if (size <= (ssize_t)folder_size || memcmp(path, folder, folder_size)) return 0;
    path[size] = 0;
    return !part || strstr(path, part);
}

/* Waits for the server, or returns the error with which a call fails meanwhile. */
static int answer(void) {
    struct stat found;
    while (gate && !stat(gate, &found)) {
        if (gate_error) return gate_error;
        usleep(20000);
    }
    return 0;
}

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_REALTIME, &time);
    return time.tv_sec + 1e-9 * time.tv_nsec;
}

/* How many bytes of a file that others write are seen; -1 if it has not appeared yet. */
static off_t shown(const struct stat *status) {
    double at = status->st_mtim.tv_sec + 1e-9 * status->st_mtim.tv_nsec;
    struct file **place = &files[status->st_ino % BUCKETS];
    pthread_mutex_lock(&mutex);
    while (*place && ((*place)->inode != status->st_ino || (*place)->device != status->st_dev)) place = &(*place)->next;
    if (!*place) {
        *place = calloc(1, sizeof **place);
        (*place)->device = status->st_dev;
        (*place)->inode = status->st_ino;
    }
    struct file *file = *place;
    struct sight *sights = file->sights;
    if (!file->count || sights[file->count - 1].size != status->st_size) {
        /* Where there are too many, the newest two become one, which is as late as the newer one. */
        if (file->count < SEEN) file->count++;
        sights[file->count - 1] = (struct sight){at, status->st_size};
    }
    int first = 0;
    while (first + 1 < file->count && now() - sights[first + 1].since >= late_s) first++;
    memmove(sights, sights + first, (file->count - first) * sizeof *sights);
    file->count -= first;
    off_t size = now() - sights[0].since >= late_s ? sights[0].size : -1;
    pthread_mutex_unlock(&mutex);
    return size;
}

static int opened(int file, int flags) {
    struct stat found;
    if (!is_here(file, &found)) return file;
    int error = answer();
    if (!error && (flags & O_ACCMODE) == O_RDONLY && !(flags & O_PATH) && shown(&found) < 0) error = ENOENT;
    if (!error) return file;
    close(file);
    errno = error;
    return -1;
}

#define OPEN(name, ...)                                                       \
    mode_t mode = 0;                                                          \
    if (flags & (O_CREAT | O_TMPFILE)) {                                      \
        va_list rest;                                                         \
        va_start(rest, flags);                                                \
        mode = va_arg(rest, mode_t);                                          \
        va_end(rest);                                                         \
    }                                                                         \
    return opened(REAL(name)(__VA_ARGS__, flags, mode), flags);

int open(const char *path, int flags, ...) { OPEN(open, path) }
int open64(const char *path, int flags, ...) { OPEN(open64, path) }
int openat(int at, const char *path, int flags, ...) { OPEN(openat, at, path) }
int openat64(int at, const char *path, int flags, ...) { OPEN(openat64, at, path) }

/* Cuts a read at the end of what is seen; returns 0 if nothing is, and -1 if the call fails. */
static int cut(int file, size_t *size, off_t at) {
    struct stat found;
    if (!is_here(file, &found)) return 1;
    int error = answer();
    if (error) {
        errno = error;
        return -1;
    }
    if ((fcntl(file, F_GETFL) & O_ACCMODE) != O_RDONLY || fstat(file, &found)) return 1;
    off_t end = shown(&found);
    if (at >= end) return 0;
    if (*size > (size_t)(end - at)) *size = end - at;
    return 1;
}

ssize_t pread(int file, void *data, size_t size, off_t at) {
    int goes = cut(file, &size, at);
    return goes > 0 ? REAL(pread)(file, data, size, at) : goes;
}
ssize_t pread64(int file, void *data, size_t size, off64_t at) { return pread(file, data, size, at); }
ssize_t read(int file, void *data, size_t size) {
    off_t at = lseek(file, 0, SEEK_CUR);
    int goes = at < 0 ? 1 : cut(file, &size, at);
    return goes > 0 ? REAL(read)(file, data, size) : goes;
}

/* Returns whether a call on a file goes on. */
static int goes_on(int file) {
    struct stat found;
    int error = is_here(file, &found) ? answer() : 0;
    if (error) errno = error;
    return !error;
}

ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    return goes_on(file) ? REAL(pwrite)(file, data, size, at) : -1;
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) { return pwrite(file, data, size, at); }
ssize_t write(int file, const void *data, size_t size) {
    return goes_on(file) ? REAL(write)(file, data, size) : -1;
}
int fsync(int file) { return goes_on(file) ? REAL(fsync)(file) : -1; }
int fdatasync(int file) { return goes_on(file) ? REAL(fdatasync)(file) : -1; }
