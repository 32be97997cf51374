//! Which functions does `--group` mean, and where does a C library call say how many bytes it moves?
//!
//! MPI functions come from the catalogue; the other groups are functions of the C library, by their exported names. A
//! name that a C library lacks is simply not found there. Several names may share one address: group them by address
//! and show [`display_name`](crate::display_name).
//!
//! Calls nest (`fread` calls `read`, `usleep` calls `nanosleep`): only the outermost call of a group counts.
//!
//! Next: [`catalogue`](crate::catalogue()) for MPI.

use crate::catalogue::catalogue;
use crate::function::Group;

impl Group {
    /// The group of this name on the command line (`comm`, `io`, `mem`, `sleep`, `omp`, `all`).
    pub fn from_name(name: &str) -> Option<Group> {
        Some(match name {
            "comm" => Group::Comm,
            "io" => Group::Io,
            "mem" => Group::Memory,
            "sleep" => Group::Sleep,
            "omp" => Group::Omp,
            "all" => Group::All,
            _ => return None,
        })
    }
}

/// Where a call says how many bytes it moves. Indices count arguments from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteSource {
    /// It moves none, or does not say.
    Absent,
    /// This argument, in bytes.
    Argument(u8),
    /// The product of two arguments (`calloc`).
    Product(u8, u8),
    /// The returned number where it is above zero: a short read counts what it read.
    Returned,
    /// The returned number of items times this argument (`fread`).
    ReturnedTimes(u8),
}

/// One function of the C library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LibcFunction {
    /// The exported name.
    pub name: &'static str,
    /// The group it belongs to, never [`Group::All`].
    pub group: Group,
    /// How many bytes it moves.
    pub bytes: ByteSource,
}

/// The functions of the C library in `group`; none for [`Group::Comm`] and [`Group::Omp`].
pub fn group_functions(group: Group) -> impl Iterator<Item = &'static LibcFunction> {
    LIBC.iter().filter(move |function| group == Group::All || function.group == group)
}

/// The names of all functions in `group`, of MPI and of the C library.
pub fn function_names(group: Group) -> impl Iterator<Item = &'static str> {
    let mpi = catalogue().iter().filter(move |function| function.is_in(group)).map(|function| function.name);
    mpi.chain(group_functions(group).map(|function| function.name))
}

const fn io(name: &'static str, bytes: ByteSource) -> LibcFunction {
    LibcFunction { name, group: Group::Io, bytes }
}

const fn memory(name: &'static str, bytes: ByteSource) -> LibcFunction {
    LibcFunction { name, group: Group::Memory, bytes }
}

const fn sleep(name: &'static str) -> LibcFunction {
    LibcFunction { name, group: Group::Sleep, bytes: ByteSource::Absent }
}

const LIBC: &[LibcFunction] = &[
    io("read", ByteSource::Returned),
    io("write", ByteSource::Returned),
    io("pread", ByteSource::Returned),
    io("pread64", ByteSource::Returned),
    io("pwrite", ByteSource::Returned),
    io("pwrite64", ByteSource::Returned),
    io("readv", ByteSource::Returned),
    io("writev", ByteSource::Returned),
    io("preadv", ByteSource::Returned),
    io("preadv64", ByteSource::Returned),
    io("preadv2", ByteSource::Returned),
    io("preadv64v2", ByteSource::Returned),
    io("pwritev", ByteSource::Returned),
    io("pwritev64", ByteSource::Returned),
    io("pwritev2", ByteSource::Returned),
    io("pwritev64v2", ByteSource::Returned),
    io("sendfile", ByteSource::Returned),
    io("sendfile64", ByteSource::Returned),
    io("copy_file_range", ByteSource::Returned),
    io("splice", ByteSource::Returned),
    io("send", ByteSource::Returned),
    io("sendto", ByteSource::Returned),
    io("sendmsg", ByteSource::Returned),
    io("recv", ByteSource::Returned),
    io("recvfrom", ByteSource::Returned),
    io("recvmsg", ByteSource::Returned),
    io("fread", ByteSource::ReturnedTimes(1)),
    io("fread_unlocked", ByteSource::ReturnedTimes(1)),
    io("fwrite", ByteSource::ReturnedTimes(1)),
    io("fwrite_unlocked", ByteSource::ReturnedTimes(1)),
    io("fprintf", ByteSource::Returned),
    io("vfprintf", ByteSource::Returned),
    io("__fprintf_chk", ByteSource::Returned),
    io("__vfprintf_chk", ByteSource::Returned),
    io("printf", ByteSource::Returned),
    io("vprintf", ByteSource::Returned),
    io("__printf_chk", ByteSource::Returned),
    io("__vprintf_chk", ByteSource::Returned),
    io("dprintf", ByteSource::Returned),
    io("puts", ByteSource::Absent),
    io("fputs", ByteSource::Absent),
    io("fgets", ByteSource::Absent),
    io("getline", ByteSource::Returned),
    io("getdelim", ByteSource::Returned),
    io("fscanf", ByteSource::Absent),
    io("__isoc99_fscanf", ByteSource::Absent),
    io("fflush", ByteSource::Absent),
    io("open", ByteSource::Absent),
    io("open64", ByteSource::Absent),
    io("openat", ByteSource::Absent),
    io("openat64", ByteSource::Absent),
    io("creat", ByteSource::Absent),
    io("creat64", ByteSource::Absent),
    io("close", ByteSource::Absent),
    io("fopen", ByteSource::Absent),
    io("fopen64", ByteSource::Absent),
    io("fdopen", ByteSource::Absent),
    io("freopen", ByteSource::Absent),
    io("fclose", ByteSource::Absent),
    io("fsync", ByteSource::Absent),
    io("fdatasync", ByteSource::Absent),
    io("sync_file_range", ByteSource::Argument(2)),
    io("syncfs", ByteSource::Absent),
    io("msync", ByteSource::Argument(1)),
    io("ftruncate", ByteSource::Absent),
    io("ftruncate64", ByteSource::Absent),
    io("fallocate", ByteSource::Absent),
    io("fallocate64", ByteSource::Absent),
    io("posix_fallocate", ByteSource::Absent),
    io("posix_fallocate64", ByteSource::Absent),
    io("lseek", ByteSource::Absent),
    io("lseek64", ByteSource::Absent),
    io("fseek", ByteSource::Absent),
    io("fseeko", ByteSource::Absent),
    io("stat", ByteSource::Absent),
    io("stat64", ByteSource::Absent),
    io("fstat", ByteSource::Absent),
    io("fstat64", ByteSource::Absent),
    io("fstatat", ByteSource::Absent),
    io("access", ByteSource::Absent),
    io("rename", ByteSource::Absent),
    io("unlink", ByteSource::Absent),
    io("mkdir", ByteSource::Absent),
    io("flock", ByteSource::Absent),
    memory("malloc", ByteSource::Argument(0)),
    memory("calloc", ByteSource::Product(0, 1)),
    memory("realloc", ByteSource::Argument(1)),
    memory("reallocarray", ByteSource::Product(1, 2)),
    memory("free", ByteSource::Absent),
    memory("posix_memalign", ByteSource::Argument(2)),
    memory("aligned_alloc", ByteSource::Argument(1)),
    memory("memalign", ByteSource::Argument(1)),
    memory("valloc", ByteSource::Argument(0)),
    memory("pvalloc", ByteSource::Argument(0)),
    memory("mmap", ByteSource::Argument(1)),
    memory("mmap64", ByteSource::Argument(1)),
    memory("munmap", ByteSource::Argument(1)),
    memory("mremap", ByteSource::Argument(2)),
    memory("mprotect", ByteSource::Argument(1)),
    memory("madvise", ByteSource::Argument(1)),
    memory("brk", ByteSource::Absent),
    memory("sbrk", ByteSource::Absent),
    memory("malloc_trim", ByteSource::Absent),
    sleep("nanosleep"),
    sleep("clock_nanosleep"),
    sleep("usleep"),
    sleep("sleep"),
    sleep("thrd_sleep"),
    sleep("pause"),
    sleep("sched_yield"),
    sleep("poll"),
    sleep("__poll_chk"),
    sleep("ppoll"),
    sleep("select"),
    sleep("pselect"),
    sleep("epoll_wait"),
    sleep("epoll_pwait"),
    sleep("epoll_pwait2"),
    sleep("pthread_cond_wait"),
    sleep("pthread_cond_timedwait"),
    sleep("pthread_cond_clockwait"),
    sleep("pthread_barrier_wait"),
    sleep("pthread_join"),
    sleep("pthread_timedjoin_np"),
    sleep("sem_wait"),
    sleep("sem_timedwait"),
    sleep("sem_clockwait"),
    sleep("sigwait"),
    sleep("sigwaitinfo"),
    sleep("sigtimedwait"),
    sleep("sigsuspend"),
    sleep("wait"),
    sleep("wait4"),
    sleep("waitid"),
    sleep("waitpid"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_libc_function_is_in_one_group() {
        let names: BTreeSet<_> = LIBC.iter().map(|function| function.name).collect();
        assert_eq!(names.len(), LIBC.len());
        assert!(LIBC.iter().all(|function| !matches!(function.group, Group::All | Group::Comm)));
    }

    #[test]
    fn groups_hold_what_a_user_expects() {
        #[rustfmt::skip]
        let cases = [
            ("MPI_Allreduce", Group::Comm, true), ("MPI_Comm_rank", Group::Comm, false),
            ("read", Group::Comm, false), ("read", Group::Io, true), ("read", Group::All, true),
            ("MPI_File_write", Group::Io, true), ("malloc", Group::Memory, true),
            ("nanosleep", Group::Sleep, true), ("malloc", Group::Sleep, false), ("MPI_Send", Group::All, true),
        ];
        for (name, group, inside) in cases {
            assert_eq!(function_names(group).any(|member| member == name), inside, "{name} in {group:?}");
        }
    }

    #[test]
    fn bytes_come_from_the_right_place() {
        let cases = [
            ("pwrite", ByteSource::Returned),
            ("fread", ByteSource::ReturnedTimes(1)),
            ("calloc", ByteSource::Product(0, 1)),
            ("realloc", ByteSource::Argument(1)),
            ("posix_memalign", ByteSource::Argument(2)),
            ("free", ByteSource::Absent),
        ];
        for (name, bytes) in cases {
            let found = group_functions(Group::All).find(|function| function.name == name).map(|f| f.bytes);
            assert_eq!(found, Some(bytes), "{name}");
        }
    }

    #[test]
    fn names_of_groups_are_read() {
        let cases = [("comm", Some(Group::Comm)), ("mem", Some(Group::Memory)), ("all", Some(Group::All)), ("x", None)];
        for (name, group) in cases {
            assert_eq!(Group::from_name(name), group, "{name}");
        }
    }
}
