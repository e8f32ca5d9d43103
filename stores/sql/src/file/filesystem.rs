//! The file systems on which SQLite's locks work between processes.

#![cfg_attr(not(target_os = "linux"), allow(dead_code))]

use std::fs;
use std::path::Path;

/// Returns the name of the directory's file system if several machines share it, or if a program provides it from
/// elsewhere: file locks and shared memory do not work across machines. If the system does not report the type, the
/// file system counts as local.
pub(super) fn network(directory: &Path) -> Option<String> {
    #[cfg(target_os = "linux")]
    {
        let found = rustix::fs::statfs(directory).ok()?;
        // The kernel's magic numbers have 32 bits; the field is wider on some machines.
        let magic = u64::try_from(found.f_type).unwrap_or_default() & 0xffff_ffff;
        network_of(magic, || mounted_type(directory))
    }
    #[cfg(not(target_os = "linux"))]
    None
}

/// From `statfs(2)` and the kernel's headers.
const NETWORK: &[(u64, &str)] = &[
    (0x6969, "nfs"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x00c3_6400, "ceph"),
    (0x5346_414f, "afs"),
    (0x6b41_4653, "afs"),
    (0x7375_7245, "coda"),
    (0x564c, "ncpfs"),
    (0x0bd0_0bd0, "lustre"),
    (0x4750_4653, "gpfs"),
    (0x0116_1970, "gfs2"),
    (0x7461_636f, "ocfs2"),
    (0x1983_0326, "beegfs"),
    (0x786f_4256, "vboxsf"),
    (0xbacb_acbc, "vmhgfs"),
];

/// The magic number shared by all file systems that programs provide, and by virtiofs.
const FUSE: u64 = 0x6573_5546;

/// The ones among them that store their data on this machine's disks. All but `fuseblk` begin with `fuse.`, which is
/// left out here.
const LOCAL: &str = "bindfs cryfs encfs ext2 exfat fuseblk fuse-overlayfs gocryptfs lxcfs mergerfs ntfs-3g \
     unionfs unionfs-fuse zfs-fuse";

fn network_of(magic: u64, mounted_type: impl FnOnce() -> Option<String>) -> Option<String> {
    if magic != FUSE {
        let known = NETWORK.iter().find(|(known, _)| *known == magic);
        return known.map(|(_, name)| (*name).to_owned());
    }
    let name = mounted_type().unwrap_or_else(|| "fuse".to_owned());
    let kind = name.strip_prefix("fuse.").unwrap_or(&name);
    let is_local = LOCAL.split(' ').any(|local| local == kind);
    (!is_local).then_some(name)
}

/// The type of the mount that contains this directory: the deepest one, or the last of several at that depth.
fn mounted_type(directory: &Path) -> Option<String> {
    let directory = fs::canonicalize(directory).ok()?;
    type_in(
        &fs::read_to_string("/proc/self/mountinfo").ok()?,
        &directory,
    )
}

fn type_in(mounts: &str, directory: &Path) -> Option<String> {
    let mounts = mounts.lines().filter_map(|line| {
        let (mount, kind) = line.split_once(" - ")?;
        let point = mount.split(' ').nth(4)?.replace("\\040", " ");
        let depth = Path::new(&point).components().count();
        directory.starts_with(&point).then_some((depth, kind))
    });
    let (_, kind) = mounts.max_by_key(|(depth, _)| *depth)?;
    Some(kind.split(' ').next().unwrap_or_default().to_owned())
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{network_of as network, type_in};

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/my\\040share rw shared:20 - fuse.sshfs user@host:/ rw
41 22 8:2 / /mnt/stick rw shared:21 - fuseblk /dev/sdb1 rw
";

    fn fuse_at(directory: &str) -> Option<String> {
        network(0x6573_5546, || type_in(MOUNTS, Path::new(directory)))
    }

    #[test]
    fn network_file_systems_are_distinguished_from_local_ones() {
        assert_eq!(network(0x6969, || None).as_deref(), Some("nfs"));
        assert_eq!(network(0xef53, || None), None, "ext4");
        assert_eq!(
            fuse_at("/mnt/my share/locks").as_deref(),
            Some("fuse.sshfs")
        );
        assert_eq!(fuse_at("/mnt/stick"), None);
    }

    #[test]
    fn the_deepest_mount_counts() {
        let kind = |directory| type_in(MOUNTS, Path::new(directory)).unwrap();
        assert_eq!(kind("/home"), "ext4");
        assert_eq!(kind("/mnt/my share"), "fuse.sshfs");
    }
}
