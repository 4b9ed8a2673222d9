/* Records the calls that change files below a folder, in one order for all processes, and lets chosen calls fail.
 *
 * Preloaded into every process of a run (LD_PRELOAD). Variables:
 *
 *   FAULTS_FOLDER   calls on paths below this folder count
 *   FAULTS_EFFECTS  the file in which jobs write what they did; of a job, only this file counts
 *   FAULTS_TRACE    the file to which records are appended; its lock makes call and record one step
 *   FAULTS_COUNTS   a shared file of counters, one per class of calls
 *   FAULTS_PLAN     CLASS:N:ERRNO:TIMES: the N-th call of a class and those after it fail, TIMES in all;
 *                   ERRNO -1 writes half of what was to be written
 *   FAULTS_WHERE    a text: only calls on paths that contain it are counted for the plan
 *   FAULTS_BOOT     a file that is read instead of the kernel's boot id
 *
 * tests/faults/trace.py reads the records, and has the same numbers for kinds and classes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum kind { OPEN = 1, WRITE, TRUNCATE, SYNC, SYNC_ALL, RENAME, LINK, UNLINK, MKDIR, RMDIR, SYMLINK, SPAWN, FAULT };
enum class { C_WRITE, C_SYNC, C_RENAME, C_OPEN, C_MKDIR, C_SPAWN, C_UNLINK, CLASSES };

struct record {
    uint32_t size;
    uint32_t kind;
    int32_t pid;
    int32_t flags;   /* of open; the class of a fault */
    uint64_t inode;
    int64_t offset;  /* of a write; the length of a truncation; the errno of a fault */
    uint32_t first, second, data;
} __attribute__((packed));

enum { CREATED = 1, TRUNCATED = 2, FOLDER = 4, HIGH = 700 };

static char folder[PATH_MAX], effects[PATH_MAX], trace_path[PATH_MAX], boot[PATH_MAX];
static size_t folder_size;
static int trace = -1, active, is_job;
static struct stat trace_stat;
static uint64_t *counts, no_counts[CLASSES + 1]; /* the last one is of the plan */
static int plan_class = -1, plan_error;
static uint64_t plan_first, plan_times = 1;
static const char *plan_where = "";
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

#define REAL(name) ((__typeof__(&name))real(#name))
#define VARIANT(like, name) ((__typeof__(&like))real(name))

static void *real(const char *name) {
    void *found = dlsym(RTLD_NEXT, name);
    if (!found) abort();
    return found;
}

static void open_trace(void) {
    int low = VARIANT(open, "open")(trace_path, O_RDWR | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (low < 0) return;
    trace = fcntl(low, F_DUPFD_CLOEXEC, HIGH);
    close(low);
    fstat(trace, &trace_stat);
}

__attribute__((constructor)) static void begin(void) {
    const char *name = getenv("FAULTS_FOLDER"), *file = getenv("FAULTS_TRACE"), *plan = getenv("FAULTS_PLAN");
    if (!name || !file) return;
    snprintf(folder, sizeof folder, "%s/", name);
    snprintf(trace_path, sizeof trace_path, "%s", file);
    folder_size = strlen(folder);
    if ((name = getenv("FAULTS_EFFECTS"))) snprintf(effects, sizeof effects, "%s", name);
    if ((name = getenv("FAULTS_BOOT"))) snprintf(boot, sizeof boot, "%s", name);
    is_job = getenv("LONGSHORE_JOB_NAME") != NULL;
    open_trace();
    counts = no_counts;
    if ((name = getenv("FAULTS_COUNTS"))) {
        int counters = VARIANT(open, "open")(name, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (counters >= 0 && !REAL(ftruncate)(counters, sizeof no_counts)) {
            void *shared = mmap(NULL, sizeof no_counts, PROT_READ | PROT_WRITE, MAP_SHARED, counters, 0);
            if (shared != MAP_FAILED) counts = shared;
        }
        if (counters >= 0) close(counters);
    }
    if ((name = getenv("FAULTS_WHERE"))) plan_where = name;
    unsigned long long first = 0, times = 1;
    if (plan && sscanf(plan, "%d:%llu:%d:%llu", &plan_class, &first, &plan_error, &times) >= 3) {
        plan_first = first;
        plan_times = times;
    }
    active = trace >= 0;
}

/* ------------------------------------------------------------------------------------------------ paths and locks */

static int counts_path(const char *path) {
    if (is_job) return effects[0] && !strcmp(path, effects);
    return !strncmp(path, folder, folder_size - 1) && (!path[folder_size - 1] || path[folder_size - 1] == '/');
}

/* Makes a path absolute, without "." and "..". */
static int resolve(int at, const char *path, char *out) {
    char whole[2 * PATH_MAX + 2], base[PATH_MAX];
    if (!active || !path) return 0;
    if (path[0] == '/') {
        snprintf(whole, sizeof whole, "%s", path);
    } else {
        char link[40];
        snprintf(link, sizeof link, at == AT_FDCWD ? "/proc/self/cwd" : "/proc/self/fd/%d", at);
        ssize_t size = readlink(link, base, sizeof base - 1);
        if (size < 0) return 0;
        base[size] = 0;
        snprintf(whole, sizeof whole, "%s/%s", base, path);
    }
    char *end = out;
    for (char *save = NULL, *part = strtok_r(whole, "/", &save); part; part = strtok_r(NULL, "/", &save)) {
        if (!strcmp(part, ".")) continue;
        if (!strcmp(part, "..")) {
            while (end > out && *--end != '/') {}
            continue;
        }
        size_t size = strlen(part);
        if (end - out + size + 2 > PATH_MAX) return 0;
        *end++ = '/';
        memcpy(end, part, size);
        end += size;
    }
    *end = 0;
    return counts_path(out);
}

/* The path of an open file, if it counts: nothing else than a regular file or a folder does. */
static int resolve_open(int file, struct stat *found, char *out) {
    char link[40];
    if (!active || file == trace || fstat(file, found)) return 0;
    if (!S_ISREG(found->st_mode) && !S_ISDIR(found->st_mode)) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t size = readlink(link, out, PATH_MAX - 1);
    if (size < 0) return 0;
    out[size] = 0;
    return counts_path(out);
}

static void lock(void) {
    struct stat now;
    struct flock whole = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
    pthread_mutex_lock(&mutex);
    if (fstat(trace, &now) || now.st_ino != trace_stat.st_ino || now.st_dev != trace_stat.st_dev) open_trace();
    while (fcntl(trace, F_SETLKW, &whole) && errno == EINTR) {}
}

static void unlock(void) {
    int kept = errno;
    struct flock whole = {.l_type = F_UNLCK, .l_whence = SEEK_SET};
    fcntl(trace, F_SETLK, &whole);
    pthread_mutex_unlock(&mutex);
    errno = kept;
}

static void add(enum kind kind, int flags, uint64_t inode, int64_t offset, const char *first, const char *second,
                const void *data, size_t size) {
    int kept = errno;
    struct record record = {0, kind, getpid(), flags, inode, offset, strlen(first), strlen(second), size};
    record.size = sizeof record + record.first + record.second + record.data;
    struct iovec parts[] = {{&record, sizeof record},
                            {(void *)first, record.first},
                            {(void *)second, record.second},
                            {(void *)data, size}};
    if (VARIANT(writev, "writev")(trace, parts, 4) != (ssize_t)record.size) abort();
    errno = kept;
}

/* Counts a call; returns the error with which it fails, or 0. */
static int count(enum class class, const char *path) {
    if (is_job) return 0;
    __atomic_add_fetch(&counts[class], 1, __ATOMIC_SEQ_CST);
    if ((int)class != plan_class || !strstr(path, plan_where)) return 0;
    uint64_t number = __atomic_add_fetch(&counts[CLASSES], 1, __ATOMIC_SEQ_CST);
    if (number < plan_first || number >= plan_first + plan_times) return 0;
    lock();
    add(FAULT, class, 0, plan_error, path, "", "", 0);
    unlock();
    return plan_error;
}

/* ---------------------------------------------------------------------------------------------------------- opening */

static int opened(const char *variant, int at, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    int writes = (flags & O_ACCMODE) != O_RDONLY || flags & (O_CREAT | O_TRUNC);
    if (active && boot[0] && !strcmp(path, "/proc/sys/kernel/random/boot_id")) path = boot;
    if (!writes || (flags & O_TMPFILE) == O_TMPFILE || !resolve(at, path, whole))
        return VARIANT(openat, variant)(at, path, flags, mode);
    int error = count(C_OPEN, whole);
    if (error > 0) {
        errno = error;
        return -1;
    }
    struct stat before, after = {0};
    lock();
    int missing = stat(whole, &before) != 0;
    int file = VARIANT(openat, variant)(at, path, flags, mode);
    if (file >= 0 && !fstat(file, &after)) {
        int what = (missing ? CREATED : 0) | (flags & O_TRUNC ? TRUNCATED : 0);
        if (what && S_ISREG(after.st_mode)) add(OPEN, what, after.st_ino, 0, whole, "", "", 0);
    }
    unlock();
    return file;
}

#define MODE(flags, mode)                        \
    mode_t mode = 0;                             \
    if (flags & (O_CREAT | O_TMPFILE)) {         \
        va_list rest;                            \
        va_start(rest, flags);                   \
        mode = va_arg(rest, mode_t);             \
        va_end(rest);                            \
    }

int open(const char *path, int flags, ...) { MODE(flags, mode) return opened("openat", AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, mode) return opened("openat64", AT_FDCWD, path, flags, mode); }
int openat(int at, const char *path, int flags, ...) { MODE(flags, mode) return opened("openat", at, path, flags, mode); }
int openat64(int at, const char *path, int flags, ...) { MODE(flags, mode) return opened("openat64", at, path, flags, mode); }
int __open_2(const char *path, int flags) { return opened("openat", AT_FDCWD, path, flags, 0); }
int __open64_2(const char *path, int flags) { return opened("openat64", AT_FDCWD, path, flags, 0); }
int __openat_2(int at, const char *path, int flags) { return opened("openat", at, path, flags, 0); }
int __openat64_2(int at, const char *path, int flags) { return opened("openat64", at, path, flags, 0); }
int creat(const char *path, mode_t mode) { return opened("openat", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }
int creat64(const char *path, mode_t mode) { return opened("openat64", AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

/* ---------------------------------------------------------------------------------------------------------- writing */

static ssize_t written(int file, const struct iovec *parts, int number, off_t at) {
    char path[PATH_MAX];
    struct stat found;
    int here = at < 0;
    if (!resolve_open(file, &found, path))
        return here ? REAL(writev)(file, parts, number) : REAL(pwritev)(file, parts, number, at);
    size_t size = 0;
    for (int part = 0; part < number; part++) size += parts[part].iov_len;
    int error = count(C_WRITE, path);
    if (error > 0 || (error < 0 && size < 2)) {
        errno = error > 0 ? error : ENOSPC;
        return -1;
    }
    char *data = malloc(size + 1);
    size_t filled = 0;
    for (int part = 0; part < number; part++) {
        memcpy(data + filled, parts[part].iov_base, parts[part].iov_len);
        filled += parts[part].iov_len;
    }
    if (error < 0) size /= 2;
    lock();
    ssize_t done = here ? VARIANT(write, "write")(file, data, size) : VARIANT(pwrite, "pwrite")(file, data, size, at);
    if (done > 0) {
        int kept = errno;
        off_t offset = here ? lseek(file, 0, SEEK_CUR) - done : at;
        errno = kept;
        add(WRITE, 0, found.st_ino, offset, path, "", data, done);
    }
    unlock();
    free(data);
    return done;
}

ssize_t write(int file, const void *data, size_t size) {
    char path[PATH_MAX];
    struct stat found;
    if (!resolve_open(file, &found, path)) return VARIANT(write, "write")(file, data, size);
    struct iovec part = {(void *)data, size};
    return written(file, &part, 1, -1);
}
ssize_t pwrite(int file, const void *data, size_t size, off_t at) {
    struct iovec part = {(void *)data, size};
    return written(file, &part, 1, at);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t at) { return pwrite(file, data, size, at); }
ssize_t writev(int file, const struct iovec *parts, int number) { return written(file, parts, number, -1); }
ssize_t pwritev(int file, const struct iovec *parts, int number, off_t at) { return written(file, parts, number, at); }
ssize_t pwritev64(int file, const struct iovec *parts, int number, off64_t at) { return written(file, parts, number, at); }

/* Copies inside the kernel do not show their data: callers fall back to reading and writing. */
static int copies(int target) {
    char path[PATH_MAX];
    struct stat found;
    if (!resolve_open(target, &found, path)) return 0;
    errno = EINVAL;
    return 1;
}
ssize_t sendfile(int to, int from, off_t *at, size_t size) {
    return copies(to) ? -1 : ((ssize_t(*)(int, int, off_t *, size_t))real("sendfile"))(to, from, at, size);
}
ssize_t sendfile64(int to, int from, off64_t *at, size_t size) {
    return copies(to) ? -1 : ((ssize_t(*)(int, int, off64_t *, size_t))real("sendfile64"))(to, from, at, size);
}
ssize_t copy_file_range(int from, off64_t *start, int to, off64_t *at, size_t size, unsigned flags) {
    return copies(to) ? -1 : REAL(copy_file_range)(from, start, to, at, size, flags);
}

int ftruncate(int file, off_t length) {
    char path[PATH_MAX];
    struct stat found;
    if (!resolve_open(file, &found, path)) return REAL(ftruncate)(file, length);
    int error = count(C_WRITE, path);
    if (error > 0) {
        errno = error;
        return -1;
    }
    lock();
    int done = REAL(ftruncate)(file, length);
    if (!done) add(TRUNCATE, 0, found.st_ino, length, path, "", "", 0);
    unlock();
    return done;
}
int ftruncate64(int file, off64_t length) { return ftruncate(file, length); }

/* ---------------------------------------------------------------------------------------------------------- syncing */

static int synced(const char *variant, int file) {
    char path[PATH_MAX];
    struct stat found;
    if (!resolve_open(file, &found, path)) return VARIANT(fsync, variant)(file);
    int error = count(C_SYNC, path);
    if (error > 0) {
        errno = error;
        return -1;
    }
    lock();
    /* The disk need not be waited for: what counts is the order. */
    add(SYNC, S_ISDIR(found.st_mode) ? FOLDER : 0, found.st_ino, 0, path, "", "", 0);
    unlock();
    return 0;
}
int fsync(int file) { return synced("fsync", file); }
int fdatasync(int file) { return synced("fdatasync", file); }
int syncfs(int file) {
    if (!active || is_job) return REAL(syncfs)(file);
    int error = count(C_SYNC, folder);
    if (error > 0) {
        errno = error;
        return -1;
    }
    lock();
    add(SYNC_ALL, 0, 0, 0, folder, "", "", 0);
    unlock();
    return 0;
}

/* ------------------------------------------------------------------------------------------------------------ names */

static int named(enum kind kind, enum class class, const char *first, const char *second, int (*call)(void *),
                 void *with) {
    int error = count(class, first);
    if (error > 0) {
        errno = error;
        return -1;
    }
    struct stat found = {0};
    lock();
    int done = call(with);
    if (!done) {
        lstat(kind == LINK ? second : first, &found);
        add(kind, 0, found.st_ino, 0, first, second, "", 0);
    }
    unlock();
    return done;
}

struct names {
    int at, to;
    const char *from, *target;
    unsigned flags;
    mode_t mode;
};

static int do_rename(void *with) {
    struct names *names = with;
    if (!names->flags) return REAL(renameat)(names->at, names->from, names->to, names->target);
    return REAL(renameat2)(names->at, names->from, names->to, names->target, names->flags);
}
int renameat2(int at, const char *from, int to, const char *target, unsigned flags) {
    char first[PATH_MAX], second[PATH_MAX];
    struct names names = {at, to, from, target, flags, 0};
    int here = resolve(at, from, first), there = resolve(to, target, second);
    return here && there ? named(RENAME, C_RENAME, first, second, do_rename, &names) : do_rename(&names);
}
int renameat(int at, const char *from, int to, const char *target) { return renameat2(at, from, to, target, 0); }
int rename(const char *from, const char *target) { return renameat2(AT_FDCWD, from, AT_FDCWD, target, 0); }

static int do_link(void *with) {
    struct names *names = with;
    return REAL(linkat)(names->at, names->from, names->to, names->target, (int)names->flags);
}
int linkat(int at, const char *from, int to, const char *target, int flags) {
    char first[PATH_MAX], second[PATH_MAX];
    struct names names = {at, to, from, target, (unsigned)flags, 0};
    int here = resolve(at, from, first), there = resolve(to, target, second);
    return here && there ? named(LINK, C_RENAME, first, second, do_link, &names) : do_link(&names);
}
int link(const char *from, const char *target) { return linkat(AT_FDCWD, from, AT_FDCWD, target, 0); }

static int do_unlink(void *with) {
    struct names *names = with;
    return REAL(unlinkat)(names->at, names->from, (int)names->flags);
}
int unlinkat(int at, const char *from, int flags) {
    char first[PATH_MAX];
    struct names names = {at, 0, from, NULL, (unsigned)flags, 0};
    if (!resolve(at, from, first)) return do_unlink(&names);
    return named(flags & AT_REMOVEDIR ? RMDIR : UNLINK, C_UNLINK, first, "", do_unlink, &names);
}
int unlink(const char *path) { return unlinkat(AT_FDCWD, path, 0); }
int rmdir(const char *path) { return unlinkat(AT_FDCWD, path, AT_REMOVEDIR); }

static int do_mkdir(void *with) {
    struct names *names = with;
    return REAL(mkdirat)(names->at, names->from, names->mode);
}
int mkdirat(int at, const char *from, mode_t mode) {
    char first[PATH_MAX];
    struct names names = {at, 0, from, NULL, 0, mode};
    return resolve(at, from, first) ? named(MKDIR, C_MKDIR, first, "", do_mkdir, &names) : do_mkdir(&names);
}
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

static int do_symlink(void *with) {
    struct names *names = with;
    return REAL(symlinkat)(names->target, names->at, names->from);
}
int symlinkat(const char *target, int at, const char *from) {
    char first[PATH_MAX];
    struct names names = {at, 0, from, target, 0, 0};
    return resolve(at, from, first) ? named(SYMLINK, C_RENAME, first, target, do_symlink, &names) : do_symlink(&names);
}
int symlink(const char *target, const char *path) { return symlinkat(target, AT_FDCWD, path); }

/* -------------------------------------------------------------------------------------------------------- processes */

/* A child that shares its parent's memory could not return from here: it gets memory of its own. */
pid_t fork(void) {
    if (!active || is_job) return REAL(fork)();
    int error = count(C_SPAWN, "fork");
    if (error > 0) {
        errno = error;
        return -1;
    }
    lock();
    pid_t child = REAL(fork)();
    if (child) {
        add(SPAWN, 0, 0, child, "fork", "", "", 0);
        unlock();
    } else {
        pthread_mutex_unlock(&mutex);
    }
    return child;
}
pid_t vfork(void) { return fork(); }

static int spawned(const char *variant, pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                   const posix_spawnattr_t *attributes, char *const words[], char *const environment[]) {
    int error = active && !is_job ? count(C_SPAWN, path) : 0;
    if (error > 0) return error;
    return VARIANT(posix_spawn, variant)(pid, path, actions, attributes, words, environment);
}
int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                const posix_spawnattr_t *attributes, char *const words[], char *const environment[]) {
    return spawned("posix_spawn", pid, path, actions, attributes, words, environment);
}
int posix_spawnp(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                 const posix_spawnattr_t *attributes, char *const words[], char *const environment[]) {
    return spawned("posix_spawnp", pid, path, actions, attributes, words, environment);
}
