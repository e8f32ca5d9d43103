//! Which file systems SQLite can keep processes apart on.

use std::path::Path;

use shedlock_core::Error;

/// The file system that a folder lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Filesystem {
    network: Option<String>,
}

impl Filesystem {
    /// Its name, if it is one that several machines share, or that a program provides from
    /// elsewhere: file locks and shared memory do not reach across.
    pub(super) fn network(&self) -> Option<&str> {
        self.network.as_deref()
    }

    /// Looks at the folder. Where the system cannot tell, the file system counts as local.
    #[cfg(target_os = "linux")]
    #[expect(clippy::unnecessary_wraps, reason = "other systems may fail")]
    pub(super) fn of(folder: &Path) -> Result<Self, Error> {
        let network = rustix::fs::statfs(folder).ok().and_then(|found| {
            // The kernel's magic numbers have 32 bits; the field is wider on some machines.
            let magic = u64::try_from(found.f_type).unwrap_or_default() & 0xffff_ffff;
            linux::network(magic, || linux::mounted_type(folder))
        });
        Ok(Self { network })
    }

    /// Looks at the folder. Where the system cannot tell, the file system counts as local.
    #[cfg(not(target_os = "linux"))]
    pub(super) fn of(_: &Path) -> Result<Self, Error> {
        Ok(Self { network: None })
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::fs;
    use std::path::Path;

    /// Of `statfs(2)` and the kernel's headers.
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

    /// One magic number for all file systems that programs provide, and for virtiofs.
    const FUSE: u64 = 0x6573_5546;

    /// Those of them that lie on this machine's disks.
    const LOCAL: &[&str] = &[
        "fuseblk",
        "fuse.bindfs",
        "fuse.cryfs",
        "fuse.encfs",
        "fuse.ext2",
        "fuse.exfat",
        "fuse.fuse-overlayfs",
        "fuse.gocryptfs",
        "fuse.lxcfs",
        "fuse.mergerfs",
        "fuse.ntfs-3g",
        "fuse.unionfs",
        "fuse.unionfs-fuse",
        "fuse.zfs-fuse",
    ];

    pub(super) fn network(
        magic: u64,
        mounted_type: impl FnOnce() -> Option<String>,
    ) -> Option<String> {
        if magic == FUSE {
            let name = mounted_type().unwrap_or_else(|| "fuse".to_owned());
            return (!LOCAL.contains(&&*name)).then_some(name);
        }
        NETWORK
            .iter()
            .find(|(known, _)| *known == magic)
            .map(|(_, name)| (*name).to_owned())
    }

    /// The type of the mount that this folder lies on: the last one whose point leads to it.
    pub(super) fn mounted_type(folder: &Path) -> Option<String> {
        let folder = fs::canonicalize(folder).ok()?;
        let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
        type_in(&mounts, &folder)
    }

    pub(super) fn type_in(mounts: &str, folder: &Path) -> Option<String> {
        let mut best: Option<(usize, &str)> = None;
        for line in mounts.lines() {
            let Some((mount, kind)) = line.split_once(" - ") else {
                continue;
            };
            let Some(point) = mount.split(' ').nth(4) else {
                continue;
            };
            let point = point.replace("\\040", " ");
            let depth = Path::new(&point).components().count();
            if folder.starts_with(&point) && best.is_none_or(|(deepest, _)| depth >= deepest) {
                best = Some((depth, kind.split(' ').next().unwrap_or_default()));
            }
        }
        best.map(|(_, kind)| kind.to_owned())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::Path;

    use super::linux::{network, type_in};

    const MOUNTS: &str = "\
22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/my\\040share rw shared:20 - fuse.sshfs user@host:/ rw
41 22 8:2 / /mnt/stick rw shared:21 - fuseblk /dev/sdb1 rw
";

    fn fuse_at(folder: &str) -> Option<String> {
        network(0x6573_5546, || type_in(MOUNTS, Path::new(folder)))
    }

    #[test]
    fn network_file_systems_are_told_from_local_ones() {
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
        let kind = |folder| type_in(MOUNTS, Path::new(folder)).unwrap();
        assert_eq!(kind("/home"), "ext4");
        assert_eq!(kind("/mnt/my share"), "fuse.sshfs");
    }
}
