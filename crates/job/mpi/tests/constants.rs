//! Checks special values, status layout, datatype sizes and version symbols against the installed MPIs.

mod common;

use std::collections::BTreeMap;
use trimtab_mpi::{DatatypeSizes, Family, HandleFacts, Library, LibraryFacts, WorldHandle};

const SOURCE: &str = r#"
#include <mpi.h>
#include <stddef.h>
#include <stdio.h>
#define INTEGER(x) printf(#x " %lld\n", (long long)(x))
#define HANDLE(x) printf(#x " %llu\n", (unsigned long long)(sizeof(x) == 4 ? (unsigned)(size_t)(x) : (size_t)(x)))
#define TYPE(x) do { int size; MPI_Type_size(x, &size); printf("type " #x " %llu %d\n", \
    (unsigned long long)(sizeof(x) == 4 ? (unsigned)(size_t)(x) : (size_t)(x)), size); } while (0)
#ifdef OMPI_MPI_H
#define OBJECT(s) do { for (int o = 8; o <= 64; o += 8) printf("word " #s " %d %llu\n", o, \
    *(unsigned long long *)((char *)&s + o)); } while (0)
extern const char ompi_version_string[];
#define VERSION ompi_version_string
#else
#define OBJECT(s)
extern const char MPII_Version_string[];
#define VERSION MPII_Version_string
#endif
int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    INTEGER(MPI_PROC_NULL); INTEGER(MPI_ANY_SOURCE); INTEGER(MPI_ANY_TAG); INTEGER(MPI_ROOT); INTEGER(MPI_UNDEFINED);
    INTEGER((size_t)MPI_IN_PLACE); INTEGER((size_t)MPI_STATUS_IGNORE); INTEGER((size_t)MPI_STATUSES_IGNORE);
    INTEGER(sizeof(MPI_Comm)); INTEGER(sizeof(MPI_Datatype)); INTEGER(sizeof(MPI_Request));
    INTEGER(offsetof(MPI_Status, MPI_SOURCE)); INTEGER(sizeof(MPI_Count));
    HANDLE(MPI_COMM_WORLD); HANDLE(MPI_COMM_SELF); HANDLE(MPI_COMM_NULL); HANDLE(MPI_REQUEST_NULL);
    TYPE(MPI_BYTE); TYPE(MPI_CHAR); TYPE(MPI_SHORT); TYPE(MPI_INT); TYPE(MPI_LONG); TYPE(MPI_LONG_LONG); TYPE(MPI_FLOAT);
    TYPE(MPI_DOUBLE); TYPE(MPI_LONG_DOUBLE); TYPE(MPI_C_DOUBLE_COMPLEX); TYPE(MPI_INT64_T); TYPE(MPI_UINT8_T);
    TYPE(MPI_AINT); TYPE(MPI_2INT); TYPE(MPI_DOUBLE_INT); TYPE(MPI_PACKED);
    MPI_Datatype derived; MPI_Type_contiguous(7, MPI_INT, &derived); MPI_Type_commit(&derived); TYPE(derived);
    OBJECT(ompi_mpi_byte); OBJECT(ompi_mpi_int); OBJECT(ompi_mpi_double);
    char text[MPI_MAX_LIBRARY_VERSION_STRING]; int length; MPI_Get_library_version(text, &length);
    for (char *c = text; *c; c++) if (*c == '\n') *c = ' ';
    printf("symbol %s\nlibrary %s\n", VERSION, text);
    MPI_Finalize();
    return 0;
}
"#;

#[test]
fn special_values_are_those_of_the_installed_libraries() {
    for mpi in common::installed() {
        let printed = common::run(mpi.compiler, SOURCE);
        let values: BTreeMap<&str, &str> = printed.lines().filter_map(|line| line.rsplit_once(' ')).collect();
        let facts = mpi.family.handles().expect("a known family");
        for (name, expected) in expected_values(&facts) {
            assert_eq!(values.get(name).copied(), Some(expected.as_str()), "{}: {name}", mpi.compiler);
        }
        check_predefined(&facts, &values, mpi.compiler);
    }
}

fn expected_values(facts: &HandleFacts) -> Vec<(&'static str, String)> {
    vec![
        ("MPI_PROC_NULL", facts.proc_null.to_string()),
        ("MPI_ANY_SOURCE", facts.any_source.to_string()),
        ("MPI_ANY_TAG", facts.any_tag.to_string()),
        ("MPI_ROOT", facts.root.to_string()),
        ("MPI_UNDEFINED", facts.undefined.to_string()),
        ("(size_t)MPI_IN_PLACE", (facts.in_place as i64).to_string()),
        ("(size_t)MPI_STATUS_IGNORE", facts.status_ignore.to_string()),
        ("(size_t)MPI_STATUSES_IGNORE", facts.status_ignore.to_string()),
        ("sizeof(MPI_Comm)", facts.handle_bytes.to_string()),
        ("sizeof(MPI_Datatype)", facts.handle_bytes.to_string()),
        ("sizeof(MPI_Request)", facts.handle_bytes.to_string()),
        ("sizeof(MPI_Count)", "8".to_owned()),
        ("offsetof(MPI_Status, MPI_SOURCE)", facts.status_source_offset.to_string()),
    ]
}

fn check_predefined(facts: &HandleFacts, values: &BTreeMap<&str, &str>, compiler: &str) {
    let handles = [
        ("MPI_COMM_WORLD", facts.comm_world),
        ("MPI_COMM_SELF", facts.comm_self),
        ("MPI_COMM_NULL", facts.comm_null),
        ("MPI_REQUEST_NULL", facts.request_null),
    ];
    for (name, handle) in handles {
        if let WorldHandle::Value(value) = handle {
            assert_eq!(values.get(name).copied(), Some(value.to_string().as_str()), "{compiler}: {name}");
        }
    }
}

#[test]
fn datatype_sizes_follow_from_handles() {
    for mpi in common::installed() {
        let printed = common::run(mpi.compiler, SOURCE);
        let facts = mpi.family.handles().expect("a known family");
        let types: Vec<(String, u64, u32)> = printed.lines().filter_map(parse_type).collect();
        assert_eq!(types.len(), 17, "{}: {printed}", mpi.compiler);
        match mpi.family {
            Family::Mpich => check_sizes_from_bits(facts.datatype_sizes, &types),
            _ => check_calibration(facts.datatype_sizes, &printed),
        }
    }
}

fn parse_type(line: &str) -> Option<(String, u64, u32)> {
    let mut words = line.strip_prefix("type ")?.split(' ');
    Some((words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?))
}

/// A handle's size is the true one, and only pair and derived types have none.
fn check_sizes_from_bits(rule: DatatypeSizes, types: &[(String, u64, u32)]) {
    let silent = ["MPI_DOUBLE_INT", "derived"];
    for (name, handle, size) in types {
        let expected = (!silent.contains(&name.as_str())).then_some(*size);
        assert_eq!(rule.from_handle(*handle), expected, "{name} {handle:#x}");
    }
}

fn check_calibration(rule: DatatypeSizes, printed: &str) {
    let word = |symbol: &str, offset: u8| {
        let prefix = format!("word {symbol} {offset} ");
        printed.lines().find_map(|line| line.strip_prefix(&prefix)?.parse().ok())
    };
    assert_eq!(rule.calibrated(word), Some(rule), "the usual offset is the one of a distribution's build");
}

/// The symbols that identification reads exist, and the version in them is the one that the library says.
#[test]
fn versions_are_found_where_identification_looks() {
    for mpi in common::installed() {
        let printed = common::run(mpi.compiler, SOURCE);
        let line = |prefix: &str| printed.lines().find_map(|line| line.strip_prefix(prefix)).map(str::to_owned);
        let facts = Linked { family: mpi.family, version: line("symbol ").expect("a version") };
        let title = Library::identify(&facts).expect("a library").title();
        let said = line("library ").expect("what the library says");
        let same = title.split(' ').next_back().is_some_and(|version| said.contains(version));
        assert!(same && title.ends_with(|last: char| last.is_ascii_digit()), "{title}: {said}");
    }
}

/// A process that has the symbols which the linker found in the installed library.
struct Linked {
    family: Family,
    version: String,
}

impl LibraryFacts for Linked {
    fn modules(&self) -> Vec<String> {
        vec!["/bin/app".to_owned()]
    }

    fn defines(&self, symbol: &str) -> bool {
        let linked = match self.family {
            Family::OpenMpi => ["ompi_version_string", "ompi_mpi_comm_world"],
            _ => ["MPII_Version_string"; 2],
        };
        linked.contains(&symbol)
    }

    fn text_at(&self, symbol: &str) -> Option<String> {
        self.defines(symbol).then(|| self.version.clone())
    }

    fn text_after(&self, _: &str) -> Option<String> {
        None
    }
}
