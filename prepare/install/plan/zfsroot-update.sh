#!/bin/sh
# Updates what starts this system: kernel, RAM disk and modules on NAME=boot, and the modules
# of the root. The RAM disk holds no modules, and a kernel loads only its own.
# usage: zfsroot-update DIR, a folder with the kernel, ramdisk-zfsroot.fs, modules.tar.xz and
# SHA512 of one release. bakeoff install wrote this script.
set -eu
dir=$1
root=${2:-}
boot=$root/boot-ffs
cd "$dir"
for file in netbsd-GENERIC.gz ramdisk-zfsroot.fs modules.tar.xz; do
	grep -qF "SHA512 ($file) = " SHA512 || { echo "zfsroot-update: SHA512 does not list $file" >&2; exit 1; }
	cksum -a SHA512 -c SHA512 "$file"
done
mount "$boot" 2>/dev/null || mount | grep -qF " on $boot type"
# Modules first: they are in a folder of their release, so that the old kernel still starts.
tar -xpf modules.tar.xz -C "$boot"
tar -xpf modules.tar.xz -C "${root:-/}"
release=$(tar -tf modules.tar.xz | sed -n 's|^\./stand/[^/]*/\([^/]*\)/modules/zfs/zfs.kmod$|\1|p')
arch=$(tar -tf modules.tar.xz | sed -n 's|^\./stand/\([^/]*\)/.*/zfs.kmod$|\1|p')
[ -n "$release" ] && [ -n "$arch" ]
cp netbsd-GENERIC.gz "$boot/netbsd.gz.new"
cp ramdisk-zfsroot.fs "$boot/ramdisk-zfsroot.fs.new"
at=/stand/$arch/$release/modules
{
	echo "menu=Boot NetBSD with its root on ZFS:load $at/solaris/solaris.kmod;load $at/zfs/zfs.kmod;fs" \
		"/ramdisk-zfsroot.fs;boot /netbsd.gz"
	echo "menu=Boot single user:load $at/solaris/solaris.kmod;load $at/zfs/zfs.kmod;fs /ramdisk-zfsroot.fs;boot" \
		"/netbsd.gz -s"
	echo "menu=Boot the kernel before the update:$(sed -n 's/^menu=Boot NetBSD with its root on ZFS://p' \
		"$boot/boot.cfg" | sed 's|/ramdisk-zfsroot.fs|/ramdisk-old.fs|; s|/netbsd.gz|/netbsd.old.gz|')"
	echo "menu=Drop to boot prompt:prompt"
	echo "default=1"
	echo "timeout=5"
} > "$boot/boot.cfg.new"
sync
cp "$boot/netbsd.gz" "$boot/netbsd.old.gz"
cp "$boot/ramdisk-zfsroot.fs" "$boot/ramdisk-old.fs"
sync
mv -f "$boot/netbsd.gz.new" "$boot/netbsd.gz"
mv -f "$boot/ramdisk-zfsroot.fs.new" "$boot/ramdisk-zfsroot.fs"
mv -f "$boot/boot.cfg.new" "$boot/boot.cfg"
sync
umount "$boot"
