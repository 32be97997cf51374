//! Functions of libraries as they are declared: how many arguments they have, and through which of them they write.
//!
//! A register that is no argument of the function holds whatever was in it before, so an address in it is given to nobody.
//! Only functions stand here that the language or a standard declares; those that are not listed are taken to have all
//! arguments, and to write through each.
//!
//! Next: `lent` and `owned`, which ask.

use crate::lent::ARGUMENTS;

/// A function's arguments in general registers, and its result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    /// As many of the registers hold arguments.
    arguments: usize,
    /// It writes through these, one bit each.
    written: u32,
    /// Its result is its first argument.
    returns_first: bool,
}

impl Declared {
    /// True if it has no argument in that register, or does not write through it.
    pub(crate) fn leaves_alone(&self, register: u8) -> bool {
        self.argument(register).is_none_or(|argument| self.written & 1 << argument == 0)
    }

    /// True if its result may be what it is given there.
    pub(crate) fn returns(&self, register: u8) -> bool {
        self.returns_first && self.argument(register) == Some(0)
    }

    fn argument(&self, register: u8) -> Option<usize> {
        let argument = ARGUMENTS.iter().position(|other| *other == register)?;
        (argument < self.arguments).then_some(argument)
    }
}

/// A name, the number of arguments, and those that it writes through.
type Row = (&'static str, usize, &'static [u32]);

/// Without `MPI_`. Of Fortran's the names are in lower case, and one more argument is behind these, which is written.
const MPI: [Row; 62] = [
    ("Allgather", 7, &[3]),
    ("Allgatherv", 8, &[3]),
    ("Allreduce", 6, &[1]),
    ("Alltoall", 7, &[3]),
    ("Alltoallv", 9, &[4]),
    ("Barrier", 1, &[]),
    ("Bcast", 5, &[0]),
    ("Bsend", 6, &[]),
    ("Cart_coords", 4, &[3]),
    ("Cart_create", 6, &[5]),
    ("Cart_rank", 3, &[2]),
    ("Cart_shift", 5, &[3, 4]),
    ("Comm_dup", 2, &[1]),
    ("Comm_free", 1, &[0]),
    ("Comm_group", 2, &[1]),
    ("Comm_rank", 2, &[1]),
    ("Comm_size", 2, &[1]),
    ("Comm_split", 4, &[3]),
    ("Dims_create", 3, &[2]),
    ("Exscan", 6, &[1]),
    ("Finalized", 1, &[0]),
    ("Gather", 8, &[3]),
    ("Gatherv", 9, &[3]),
    ("Get_count", 3, &[2]),
    ("Group_free", 1, &[0]),
    ("Initialized", 1, &[0]),
    ("Iprobe", 5, &[3, 4]),
    ("Irecv", 7, &[0, 6]),
    ("Irsend", 7, &[6]),
    ("Isend", 7, &[6]),
    ("Issend", 7, &[6]),
    ("Probe", 4, &[3]),
    ("Recv", 7, &[0, 6]),
    ("Recv_init", 7, &[0, 6]),
    ("Reduce", 7, &[1]),
    ("Reduce_scatter", 6, &[1]),
    ("Reduce_scatter_block", 6, &[1]),
    ("Request_free", 1, &[0]),
    ("Rsend", 6, &[]),
    ("Scan", 6, &[1]),
    ("Scatter", 8, &[3]),
    ("Scatterv", 9, &[4]),
    ("Send", 6, &[]),
    ("Send_init", 7, &[6]),
    ("Sendrecv", 12, &[5, 11]),
    ("Sendrecv_replace", 9, &[0, 8]),
    ("Ssend", 6, &[]),
    ("Start", 1, &[0]),
    ("Startall", 2, &[1]),
    ("Test", 3, &[0, 1, 2]),
    ("Testall", 4, &[1, 2, 3]),
    ("Testany", 5, &[1, 2, 3, 4]),
    ("Testsome", 5, &[1, 2, 3, 4]),
    ("Type_commit", 1, &[0]),
    ("Type_contiguous", 3, &[2]),
    ("Type_free", 1, &[0]),
    ("Type_size", 2, &[1]),
    ("Type_vector", 5, &[4]),
    ("Wait", 2, &[0, 1]),
    ("Waitall", 3, &[1, 2]),
    ("Waitany", 4, &[1, 2, 3]),
    ("Waitsome", 5, &[1, 2, 3, 4]),
];

/// The C library's, and MPI's that Fortran declares otherwise.
const OTHERS: [Row; 50] = [
    ("MPI_Abort", 2, &[]),
    ("MPI_Finalize", 0, &[]),
    ("MPI_Init", 2, &[0, 1]),
    ("MPI_Init_thread", 4, &[0, 1, 3]),
    ("MPI_Wtick", 0, &[]),
    ("MPI_Wtime", 0, &[]),
    ("mpi_finalize_", 1, &[0]),
    ("mpi_init_", 1, &[0]),
    ("mpi_init_thread_", 3, &[1, 2]),
    ("mpi_wtick_", 0, &[]),
    ("mpi_wtime_", 0, &[]),
    ("__fprintf_chk", 6, &[]),
    ("__printf_chk", 6, &[]),
    ("__snprintf_chk", 6, &[0]),
    ("__sprintf_chk", 6, &[0]),
    ("atof", 1, &[]),
    ("atoi", 1, &[]),
    ("atol", 1, &[]),
    ("calloc", 2, &[]),
    ("clock", 0, &[]),
    ("clock_gettime", 2, &[1]),
    ("drand48", 0, &[]),
    ("fflush", 1, &[]),
    ("fopen", 2, &[]),
    ("fprintf", 6, &[]),
    ("fputc", 2, &[]),
    ("fputs", 2, &[]),
    ("fwrite", 4, &[]),
    ("gettimeofday", 2, &[0, 1]),
    ("malloc", 1, &[]),
    ("memcmp", 3, &[]),
    ("nanosleep", 2, &[1]),
    ("omp_get_thread_num", 0, &[]),
    ("omp_get_wtime", 0, &[]),
    ("printf", 6, &[]),
    ("putchar", 1, &[]),
    ("puts", 1, &[]),
    ("rand", 0, &[]),
    ("random", 0, &[]),
    ("snprintf", 6, &[0]),
    ("sprintf", 6, &[0]),
    ("srand", 1, &[]),
    ("strcmp", 2, &[]),
    ("strlen", 1, &[]),
    ("strncmp", 3, &[]),
    ("time", 1, &[0]),
    ("usleep", 1, &[]),
    ("write", 3, &[]),
    ("_Znam", 1, &[]),
    ("_Znwm", 1, &[]),
];

/// Functions of numbers, which take them in vector registers; also with an `f` behind.
const NUMBERS: [&str; 27] = [
    "acos", "asin", "atan", "atan2", "cbrt", "ceil", "cos", "cosh", "erf", "erfc", "exp", "exp2", "fabs", "floor",
    "fma", "fmax", "fmin", "fmod", "hypot", "log", "log10", "log2", "pow", "sin", "sqrt", "tan", "tanh",
];

/// Statements of Fortran that read and write: what they are told of the statement, and for items to be written also where
/// each lies and its kind.
const STATEMENT: [&str; 4] =
    ["_gfortran_st_read", "_gfortran_st_read_done", "_gfortran_st_write", "_gfortran_st_write_done"];
const TRANSFER: &str = "_gfortran_transfer_";
const TO_A_FILE: &str = "_write";
/// `std::ostream::operator<<` of a number, which returns the stream.
const STREAM: &str = "_ZNSols";

/// Without `MPI_`, in lower case: functions that begin so write, or have others write, to what they were given after they have
/// returned.
const KEEPERS: [&str; 17] = [
    "compare_and_swap",
    "fetch_and_op",
    "file_iread",
    "get_accumulate",
    "iallgather",
    "iallreduce",
    "ialltoall",
    "ibcast",
    "igather",
    "imrecv",
    "ineighbor_",
    "irecv",
    "ireduce",
    "iscan",
    "iscatter",
    "isendrecv",
    "win_create",
];
/// The same, and these alone.
const KEEPERS_BY_NAME: [&str; 5] = ["get", "iexscan", "rget", "rget_accumulate", "win_attach"];
/// The end of the name of a function that makes a persistent request.
const PERSISTENT: &str = "_init";
/// Functions of the C library that give an address to another thread.
const STARTERS: [&str; 4] = ["pthread_create", "thrd_create", "aio_read", "lio_listio"];

/// True if a function of another module may write to what it was given after it has returned, as a receive that is only begun.
pub(crate) fn keeps_for_later(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name).to_ascii_lowercase();
    if STARTERS.contains(&name.as_str()) {
        return true;
    }
    let Some(function) = name.strip_prefix("mpi_").or(name.strip_prefix("pmpi_")) else { return false };
    let function = ["_f08ts_", "_f08_", "_"].iter().find_map(|end| function.strip_suffix(end)).unwrap_or(function);
    KEEPERS.iter().any(|begin| function.starts_with(begin))
        || KEEPERS_BY_NAME.contains(&function)
        || function.ends_with(PERSISTENT)
}

/// The declaration of a function of another module, if it is known.
pub(crate) fn declared(name: &str) -> Option<Declared> {
    let name = name.split('@').next().unwrap_or(name);
    let plain = |arguments, written: &[u32]| Declared { arguments, written: bits(written), returns_first: false };
    let number = name.strip_suffix('f').filter(|number| NUMBERS.contains(number));
    if let Some((_, arguments, written)) = OTHERS.iter().find(|row| row.0 == name) {
        return Some(plain(*arguments, written));
    }
    if number.is_some() || NUMBERS.contains(&name) {
        return Some(plain(0, &[]));
    }
    if STATEMENT.contains(&name) {
        return Some(plain(1, &[0]));
    }
    if name.starts_with(TRANSFER) && name.ends_with(TO_A_FILE) {
        return Some(plain(4, &[0]));
    }
    if name.starts_with(STREAM) {
        return Some(Declared { returns_first: true, ..plain(2, &[0]) });
    }
    of_mpi(name)
}

fn of_mpi(name: &str) -> Option<Declared> {
    if let Some(function) = name.strip_prefix("MPI_").or(name.strip_prefix("PMPI_")) {
        let (_, arguments, written) = MPI.iter().find(|row| row.0 == function)?;
        return Some(Declared { arguments: *arguments, written: bits(written), returns_first: false });
    }
    let function = name.strip_prefix("mpi_").or(name.strip_prefix("pmpi_"))?;
    let function = function.strip_suffix("_f08ts_").or(function.strip_suffix("_f08_")).or(function.strip_suffix('_'))?;
    let (_, arguments, written) = MPI.iter().find(|row| row.0.eq_ignore_ascii_case(function))?;
    Some(Declared { arguments: arguments + 1, written: bits(written) | 1 << arguments, returns_first: false })
}

fn bits(arguments: &[u32]) -> u32 {
    arguments.iter().fold(0, |all, argument| all | 1 << argument)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RDI: u8 = 7;
    const RSI: u8 = 6;
    const RCX: u8 = 1;
    const R8: u8 = 8;
    const R9: u8 = 9;

    #[test]
    fn a_register_that_is_no_argument_is_given_to_nobody() {
        let bcast = declared("MPI_Bcast").expect("known");
        assert!(!bcast.leaves_alone(RDI) && bcast.leaves_alone(R9) && bcast.leaves_alone(RSI));
        let exp = declared("expf@GLIBC_2.27").expect("known");
        assert!(ARGUMENTS.iter().all(|register| exp.leaves_alone(*register)));
        assert_eq!(declared("something_else"), None, "it may write through each");
        assert_eq!(declared("MPI_Something"), None);
    }

    #[test]
    fn fortrans_have_their_error_behind() {
        let wait = declared("mpi_waitall_").expect("known");
        let written = |register| !wait.leaves_alone(register);
        assert_eq!([RDI, RSI, 2, RCX, R8].map(written), [false, true, true, true, false]);
        assert_eq!(declared("mpi_waitall_f08_"), declared("mpi_waitall_"));
        let item = declared("_gfortran_transfer_integer_write").expect("known");
        assert!(item.leaves_alone(RSI) && !item.leaves_alone(RDI));
        assert_eq!(declared("_gfortran_transfer_integer"), None, "it reads from a file");
    }

    #[test]
    fn results_that_are_no_argument_are_none() {
        assert!(declared("_ZNSolsEi").expect("known").returns(RDI));
        assert!(!declared("_ZNSolsEi").expect("known").returns(RSI));
        assert!(!declared("mpi_bcast_").expect("known").returns(RDI));
    }

    #[test]
    fn no_row_stands_twice_and_none_writes_through_what_it_has_not() {
        for rows in [&MPI[..], &OTHERS[..]] {
            for (index, (name, arguments, written)) in rows.iter().enumerate() {
                assert!(rows[..index].iter().all(|row| row.0 != *name), "{name}");
                assert!(written.iter().all(|one| (*one as usize) < *arguments), "{name}");
            }
        }
    }
    #[test]
    fn receives_that_are_only_begun_keep_what_they_are_given() {
        for name in ["MPI_Irecv", "PMPI_Recv_init", "mpi_irecv_", "mpi_ibcast_f08_", "MPI_Win_create", "MPI_Get"] {
            assert!(keeps_for_later(name), "{name}");
        }
        assert!(keeps_for_later("pthread_create@GLIBC_2.34") && keeps_for_later("MPI_Allreduce_init"));
        for name in [
            "MPI_Init",
            "mpi_init_",
            "MPI_Recv",
            "MPI_Get_count",
            "MPI_Isend",
            "MPI_Iprobe",
            "scanf",
            "mpi_get_address_",
        ] {
            assert!(!keeps_for_later(name), "{name}");
        }
    }
}
