use super::Affinity;

#[test]
fn types_are_read_as_sqlite_reads_them() {
    for (type_name, affinity) in [
        ("timestamp", Affinity::Numeric),
        ("datetime", Affinity::Numeric),
        ("bigint", Affinity::Integer),
        ("varchar", Affinity::Text),
        ("real", Affinity::Other),
        ("", Affinity::Other),
    ] {
        assert_eq!(Affinity::of(type_name), affinity, "{type_name}");
    }
}
