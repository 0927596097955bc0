#!/bin/sh
# Prints a line for each kernel that would have no module of ZFS in the new system.
# usage: module-fits DIR BASE [MODULES]
# DIR is the folder of the downloads, BASE the archive of the base system, MODULES one that dkms
# made. bakeoff install wrote this script.
set -eu
dir=$1 base=$2 modules=${3:-} built=
cd "$dir/var/cache/apt/archives"
packages=$({
	sed -n '/^Package: /h; /^Status: [a-z]* ok installed$/{x;s/^Package: //p;}' "$dir/var/lib/dpkg/status"
	ls | sed -n 's/_.*\.deb$//p'
} | sort -u)
kernels=$(printf '%s\n' "$packages" | sed -n '/-dbg$/d; s/-unsigned$//; s/^linux-image-\([0-9]\)/\1/p')
headers=$(printf '%s\n' "$packages" | sed -n 's/^linux-headers-\([0-9]\)/\1/p')
fix="set kernel to an older kernel, take kernel and ZFS from one suite, or set modules to an archive for this kernel"
complete="add linux-headers of this version to packages, or leave out the package of this kernel, and make another plan"
set -- zfs-dkms_*.deb
if [ -e "$1" ]; then
	meta=$(dpkg-deb --fsys-tarfile "$1" | tar -xO --wildcards './usr/src/zfs-*/META')
	[ -z "$modules" ] || built=$(tar -tf "$modules")
else # the base system has ZFS, and may have modules
	meta=$(tar -xOf "$base" --wildcards './usr/src/zfs-*/META')
	built=$(tar -tf "$base") modules=
fi
