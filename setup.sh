#!/bin/sh
# setup.sh installs the Debian or Ubuntu packages that bakeoff uses.
#
#   ./setup.sh run          packages for `bakeoff run examples/quick`
#   ./setup.sh technologies additional packages for examples/technologies
#   ./setup.sh run test     packages for run, and additional packages for the tests; with
#                           npm also what checks pages, in bakeoff's cache folder; with Python, DuckDB and
#                         pyarrow there
#   ./setup.sh check        packages for `make check` (the race detector's C compiler)
#   ./setup.sh go           the Go toolchain that go.mod names, if `go` is missing or older
#   ./setup.sh -n run       only print what is missing
#
# It prints what it installs and why before it does so, installs only what is
# missing, starts no service, and asks for root (sudo) once, and only if there is
# something to install.
set -eu

# Go keeps its caches below HOME, which services do not always have.
if [ -z "${HOME:-}" ]; then
	HOME=$(getent passwd "$(id -u)" | cut -d: -f6)
	export HOME
fi

# group|package|why. A ? before the package means that it is optional: continue
# without it if the system does not provide it.
packages() {
	cat <<-'LIST'
	run|qemu-system-x86|driver qemu: the virtual machines microvm and q35
	run|qemu-utils|driver qemu: volumes as qcow2 images
	test|vncsnapshot|a client of VNC, which takes a picture of the screen of a guest
	run|crun|driver oci: containers by crun
	run|runc|driver oci: containers by runc
	run|bubblewrap|driver bwrap: sandboxes without a daemon
	run|mmdebstrap|builds the Debian root images of every environment
	run|debian-archive-keyring|verifies the Debian packages in those images
	run|e2fsprogs|creates the ext4 images of volumes and of virtual machines
	run|mount|mounts volumes through loop devices
	run|iproute2|the experiment's network: a namespace with its own bridge
	run|nftables|networks of guests: filters against spoofing, and NAT
	run|dnsmasq-base|networks of guests: addresses and names; never started as a service
	run|procps|ends leftover processes of an environment (kill); the smallest systems lack it
	run|openssh-client|reaches other machines, with the configuration of the user
	test|openssh-server|another machine on the loopback interface, for the tests over SSH
	run|nginx|workload http on the bare host: the packaged server, never started as a service
	technologies|docker.io|driver docker: containers by Docker's engine
	technologies|?docker-cli|the command docker, where it is a separate package (Debian 13)
	technologies|podman|driver podman: containers by an engine without a daemon
	technologies|lxc|driver lxc: containers by LXC
	technologies|systemd-container|driver nspawn: containers by systemd-nspawn
	test|docker.io|driver docker, in the tests: an engine that the test starts itself
	test|?docker-cli|the command docker, in the tests
	test|podman|driver podman, in the tests
	test|slirp4netns|driver podman: its network slirp4netns
	test|?passt|driver podman: its network pasta
	test|iptables|drivers docker and podman: their networks with translated addresses
	test|lxc|driver lxc, in the tests
	test|systemd-container|driver nspawn, in the tests
	test|ovmf|driver qemu: machines that boot by UEFI
	test|seabios|driver qemu: machines that boot by a BIOS
	test|?chromium|renders the page as a browser does: without JavaScript, narrow, dark, printed
	test|poppler-utils|reads printed pages (pdftotext)
	test|zfs-fuse|volumes with ZFS where the kernel has no ZFS (backing file:zfs)
	test|xfsprogs|volumes with XFS (backing file:xfs)
	test|?virtiofsd|folders of the host in machines of services, where it is a separate package (Debian 13)
	test|nfs-ganesha|volumes on NFS: their server (backing nfs)
	test|nfs-ganesha-vfs|volumes on NFS: what their server exports (backing nfs)
	test|btrfs-progs|volumes with btrfs (backing file:btrfs)
	test|gdisk|install: writes and reads partition tables (sgdisk)
	test|fdisk|install: reads them again (sfdisk)
	test|cryptsetup-bin|install: encrypted swap
	test|dosfstools|install: the FAT of the boot loader
	test|zstd|compress-estimate: every level of zstd, as ZFS and btrfs compress
	test|wrk|tool wrk, and the reference for the load generator in bakeoff-agent
	test|nghttp2-client|tool h2load, and the reference for that generator over HTTP/2 (bench/http)
	test|apache2-utils|tool ab: a closed loop of HTTP/1.0 requests
	test|hey|tool hey: a closed loop of HTTP/1.1 requests
	test|postgresql|tool pgbench, workload cms, bakeoff store: the database, never started as a service
	test|siege|tool siege: users that request a page
	test|davical|workload cms: the web application under load, with its PHP libraries
	test|php-fpm|workload cms: runs that application, never started as a service
	test|php-pgsql|workload cms: its connection to the database
	test|sysbench|tool sysbench: the CPU and memory tests as the platform ships them
	test|bonnie++|tool bonnie: one pass over a large file and many small ones
	test|wine64|runs the agent for Windows
	test|fio|tool fio: reads and writes of one file
	test|openssl|tool openssl: the speed of a hash or a cipher
	test|python3|runs a script on the host, as packages of images do in environments
	test|lighttpd|workload http with another server, never started as a service
	test|lighttpd-mod-openssl|HTTPS of that server
	test|busybox-static|programs without libraries for the tests of roots and RAM disks
	test|musl|the loader of musl: a root in which programs for glibc are refused
	test|bzip2|packs a kernel as Linux does
	test|lz4|packs a kernel as Linux does
	test|lzop|packs a kernel as Linux does
	test|xz-utils|packs a kernel as Linux does
	test|cpio|reads the RAM disks that the tests write
	test|?grub-pc-bin|driver qemu: a disk with its own boot loader, for a BIOS; never installed as a boot loader
	test|?grub-efi-amd64-bin|driver qemu: the same disk for UEFI
	test|mtools|driver qemu: the FAT file system of that disk, without mounting it
	test|?isc-dhcp-client|networks of guests: a client of DHCPv6, which the tests start
	test|firewalld|networks of guests: a firewall that drops their packets, never started as a service
	test|skopeo|copies images between the registry of the tests and folders, as another program does
	test|docker-registry|pulls of images: a registry that the tests start, never started as a service
	test|musl-tools|examples/images: the same program with another C library
	test|gcc|examples/images: compiles that program
	test|libc6-dev|examples/images: the C headers for it
	test|strace|shows which system calls a trial makes
	test|nodejs|runs html-validate, which checks the pages that bakeoff writes
	test|npm|installs html-validate and axe-core into bakeoff's cache folder
	test|python3-venv|reads the samples of bundles with DuckDB and pyarrow, in bakeoff's cache folder
	test|libxml2-utils|xmllint: checks feeds and site maps against their schemas
	test|slurmctld|run --on slurm, in the tests: the controller, never started as a service
	test|slurmd|run --on slurm, in the tests: the nodes, never started as a service
	test|slurm-client|run --on slurm: submits jobs and asks for them (sbatch, squeue)
	test|munge|authentication of Slurm, in the tests; never started as a service
	golang|golang-go|fetches the Go toolchain that go.mod names (./setup.sh go)
	golang|ca-certificates|verifies the server that the toolchain comes from
	check|gcc|the race detector of go test -race
	check|libc6-dev|C headers for the race detector
	LIST
}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

# The sums of the toolchain that go.mod names, as in the checksum database
# sum.golang.org. They change together with go.mod; a test compares the two.
sums() {
	cat <<-'LIST'
	go1.26.0.linux-amd64 h1:1p2G5COR51f8Q3EQ4HLJQDDL2ytLEqfL/yTawB0Jr8w=
	go1.26.0.linux-arm64 h1:lAFrRm35hIzvRSMYiELtaPaitr22pp6iaBbdPBuJg2U=
	LIST
}
release=go$(sed -n 's/^go //p' "$(dirname "$0")/go.mod")

# outside runs go outside of any module: an older go cannot read go.mod.
outside() { (cd / && GOFLAGS='' GOTOOLCHAIN="${toolchain:-local}" go "$@"); }

# new_enough reports whether the go in PATH is at least the release of go.mod.
new_enough() {
	have=$(outside version 2>/dev/null | sed -n 's/^go version .*\(go1[0-9.]*\).*/\1/p')
	[ -n "$have" ] && [ "$(printf '%s\n' "$release" "$have" | sort -V | head -n 1)" = "$release" ]
}

# find_toolchain sets platform, cache and root: where go keeps that release.
find_toolchain() {
	platform=$(outside env GOHOSTOS)-$(outside env GOHOSTARCH)
	cache=$(outside env GOMODCACHE)
	root=$cache/golang.org/toolchain@v0.0.1-$release.$platform
}

# print_go prints the go command that builds bakeoff. The toolchain's go becomes
# executable only after its sum was checked.
print_go() {
	if command -v go >/dev/null && ! new_enough; then
		find_toolchain
		[ ! -x "$root/bin/go" ] || { echo "$root/bin/go"; return; }
	fi
	echo go
}

# fetch_go downloads the toolchain as the calling user. Go 1.21 and newer do it
# themselves; an older go downloads it as a module, without making it executable.
fetch_go() {
	[ "$(print_go)" = go ] || return 0
	! new_enough || return 0
	sh "$0" golang
	command -v go >/dev/null || die "go is not installed. Install Go from https://go.dev/dl/"
	! new_enough || return 0
	find_toolchain
	sum=$(sums | sed -n "s/^$release\.$platform //p")
	[ -n "$sum" ] || die "no sum of $release for $platform is known. Install $release from https://go.dev/dl/"
	say "downloading $release, which go.mod names; the go in PATH is ${have:-unknown}"
	case "$have" in
	go1.1[0-9] | go1.1[0-9].* | go1.20 | go1.20.*)
		outside mod download "golang.org/toolchain@v0.0.1-$release.$platform" || die "the download failed; see above" ;;
	*)
		toolchain=$release
		outside version >/dev/null || die "the download failed; see above"
		toolchain='' ;;
	esac
	got=$(cat "$cache/cache/download/golang.org/toolchain/@v/v0.0.1-$release.$platform.ziphash")
	[ "$got" = "$sum" ] || {
		chmod a-x "$root/bin/go"
		die "$release for $platform has the sum $got instead of $sum. Run: go clean -modcache"
	}
	chmod a+x "$root"/bin/* "$root/pkg/tool/$(echo "$platform" | tr - _)"/*
	say "installed: $root"
}

# cache_folder prints bakeoff's cache folder.
cache_folder() {
	if [ -n "${BAKEOFF_CACHE:-}" ]; then echo "$BAKEOFF_CACHE"
	elif [ "$(id -u)" = 0 ]; then echo /var/cache/bakeoff
	else echo "${XDG_CACHE_HOME:-$HOME/.cache}/bakeoff"; fi
}

# fetch_checkers installs the programs that check pages in tests, in the versions and
# with the sums of a lock file, for the calling user. Without them those tests are skipped.
fetch_checkers() {
	lock=$(cd "$(dirname "$0")" && pwd)/publish/pagetest/npm
	folder=$(cache_folder)/pagetest
	# npm writes the inner file last.
	if [ -e "$folder/node_modules/.package-lock.json" ] &&
		cmp -s "$lock/package-lock.json" "$folder/package-lock.json"; then
		return 0
	fi
	command -v npm >/dev/null || return 0
	say "installing axe-core and html-validate with npm in $folder"
	mkdir -p "$folder"
	cp "$lock/package.json" "$lock/package-lock.json" "$folder"
	npm ci --ignore-scripts --no-audit --no-fund --no-progress --loglevel=error --prefix "$folder" </dev/null || {
		rm -f "$folder/package-lock.json"
		say "npm failed; see above. The tests of pages will be skipped"
	}
}

# fetch_readers does the same with the programs that read samples, from PyPI.
fetch_readers() {
	lock=$(cd "$(dirname "$0")" && pwd)/lab/archive/bundle/python/requirements.txt
	folder=$(cache_folder)/readers
	! cmp -s "$lock" "$folder/requirements.txt" || return 0
	command -v python3 >/dev/null || return 0
	say "installing DuckDB and pyarrow with pip in $folder"
	rm -rf "$folder"
	mkdir -p "$folder"
	if python3 -m venv "$folder" && "$folder/bin/python" -m pip install -q --require-hashes --only-binary :all: \
		-r "$lock" </dev/null; then
		cp "$lock" "$folder"
	else
		rm -rf "$folder"
		say "pip failed; see above. The test that reads samples with DuckDB and pyarrow will be skipped"
	fi
}

only_say=no
if [ "${1:-}" = -n ]; then only_say=yes; shift; fi
[ $# -gt 0 ] || set -- run
case "$only_say $*" in
'no print-go') print_go; exit ;;
'no go') fetch_go; exit ;;
'no packages '*) shift ;;
'no '*)
	case " $* " in *' test '*)
		sh "$0" packages "$@"
		fetch_checkers
		fetch_readers
		exit ;;
	esac ;;
esac
for group; do
	packages | grep -q "^$group|" || die "unknown group $group; use run, technologies, test, check or go"
done

wanted() {
	for group; do packages | sed -n "s/^$group|//p"; done
}

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# available reports whether apt could install a package. Ubuntu's chromium is an
# empty package that requires snap, which test machines do not have.
available() {
	case "$(LC_ALL=C apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p')" in
	'' | '(none)' | *snap*) return 1 ;;
	esac
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
	say "this is not Debian or Ubuntu. bakeoff uses these programs; install them by other means:"
	wanted "$@" | sed 's/^?//; s/|/: /; s/^/  /'
	say "then run: bakeoff doctor"
	exit 0
fi

# lists reports whether apt has its package lists.
lists() {
	for list in /var/lib/apt/lists/*_Packages*; do
		[ ! -e "$list" ] || return 0
	done
	return 1
}

# Go and Node.js of other sources will do, too.
foreign() {
	case "$1" in
	golang-go) command -v go ;;
	nodejs | npm) command -v node && command -v npm ;;
	*) return 1 ;;
	esac >/dev/null
}

# An optional package that this system does not provide is not missing.
foregone() {
	[ "$1" != "${1#\?}" ] && lists && ! available "${1#\?}"
}

missing=''
while IFS='|' read -r package why; do
	installed "${package#\?}" || foregone "$package" || foreign "$package" || missing="$missing $package"
done <<LIST
$(wanted "$@")
LIST
[ -n "$missing" ] || { say "nothing is missing for: $*"; exit 0; }

say "missing for $*:"
wanted "$@" | while IFS='|' read -r package why; do
	case "$missing " in *" $package "*) say "  ${package#\?} – $why" ;; esac
done
[ "$only_say" = no ] || exit 0

# Ask for root once, for the whole script.
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null ||
		die "root is required and sudo is not installed. Run as root:" \
			"apt-get install --no-install-recommends$(printf ' %s' $missing | tr -d '?')"
	if [ -t 0 ]; then
		exec sudo sh "$0" packages "$@"
	fi
	sudo -n true || die "sudo requires a password and there is no terminal; run $0 on a terminal or as root"
	exec sudo -n sh "$0" packages "$@"
fi

# Debian starts a server when it is installed. A policy forbids this while the
# script runs, unless the machine has its own policy.
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
	printf '#!/bin/sh\nexit 101\n' >"$policy"
	chmod 755 "$policy"
fi

export DEBIAN_FRONTEND=noninteractive NEEDRESTART_SUSPEND=1
apt() {
	apt-get -q -y -o DPkg::Lock::Timeout=300 -o Acquire::Retries=3 -o Dpkg::Use-Pty=0 "$@" </dev/null
}

# The lists are fetched if a package is not in them, or if the mirror no longer has
# the version in them. A machine that has just booted may be fetching them itself;
# apt-get does not wait for that lock.
update() {
	say "fetching the package lists"
	for wait in 2 8 20 30 60 60; do
		apt update && return 0
		say "apt-get update failed; trying again in $wait s"
		sleep "$wait"
	done
	apt update || die "apt-get update failed; see above"
}
for package in $missing; do
	available "${package#\?}" || { update; break; }
done

names=''
for package in $missing; do
	if available "${package#\?}"; then
		names="$names ${package#\?}"
	elif [ "$package" != "${package#\?}" ]; then
		say "no package ${package#\?} on this system; continuing without it"
	else
		die "no package $package: enable Debian's main or Ubuntu's universe in /etc/apt/sources.list"
	fi
done
[ -n "$names" ] || exit 0

# shellcheck disable=SC2086 # a list of names
apt install --no-install-recommends $names || {
	update
	apt install --no-install-recommends $names || die "apt-get install failed; see above"
}
# Debian starts firewalld when the machine boots, and it changes the network of other programs.
case "$names " in
*" firewalld "*) ! command -v systemctl >/dev/null || systemctl disable firewalld ;;
esac
say "installed:$names"
