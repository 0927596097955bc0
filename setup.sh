#!/bin/sh
# setup.sh installs the Debian or Ubuntu packages that bakeoff drives.
#
#   ./setup.sh run          what `bakeoff run examples/quick` needs
#   ./setup.sh technologies what examples/technologies can use beside it
#   ./setup.sh run test     … and what the tests need beside it
#   ./setup.sh check        what `make check` needs (the race detector's C compiler)
#   ./setup.sh -n run       only say what is missing
#
# It installs what is missing and nothing else, says what and why before it
# does, starts no service, and asks for root (sudo) once and only when there
# is something to install.
set -eu

# group|package|why. A ? before the package: go on without it where the
# system does not have it.
packages() {
	cat <<-'LIST'
	run|qemu-system-x86|driver qemu: the virtual machines microvm and q35
	run|qemu-utils|driver qemu: volumes as qcow2 images
	run|crun|driver oci: containers by crun
	run|runc|driver oci: containers by runc
	run|bubblewrap|driver bwrap: sandboxes without a daemon
	run|mmdebstrap|makes the Debian root images of every environment
	run|debian-archive-keyring|proves that the packages in those images are Debian's
	run|e2fsprogs|makes the ext4 images of volumes and of virtual machines
	run|mount|mounts volumes through loop devices
	run|iproute2|the experiment's network: a namespace and a bridge of its own
	run|procps|ends what is left of an environment (kill), which the smallest systems lack
	run|openssh-client|drives other machines, with the configuration that the user has
	test|openssh-server|another machine on the loopback, for the tests of the way over SSH
	run|nginx|workload http on the bare host: the packaged server, never started as a service
	technologies|docker.io|driver docker: containers by Docker's engine
	technologies|?docker-cli|the command docker, where it has a package of its own (Debian 13)
	technologies|podman|driver podman: containers by an engine without a daemon
	technologies|lxc|driver lxc: containers by LXC
	technologies|systemd-container|driver nspawn: containers by systemd-nspawn
	test|docker.io|the same, with an engine that the test starts itself
	test|?docker-cli|the same
	test|podman|the same
	test|lxc|driver lxc, in the tests, too
	test|systemd-container|driver nspawn, in the tests, too
	test|ovmf|driver qemu: machines that start by UEFI
	test|seabios|driver qemu: machines that start by a BIOS
	test|?chromium|looks at the page as a browser does: without JavaScript, narrow, dark, printed
	test|zfs-fuse|volumes with ZFS where the kernel has none (backing file:zfs)
	test|btrfs-progs|volumes with btrfs (backing file:btrfs)
	test|zstd|compress-estimate: every level of zstd, as ZFS and btrfs compress
	test|wrk|tool wrk, and what the load generator in bakeoff-agent is held against
	test|postgresql|tool pgbench and workload cms: the database, never started as a service
	test|siege|tool siege: users that ask for a page
	test|davical|workload cms: the web application that is under load, with its PHP libraries
	test|php-fpm|workload cms: runs that application, never started as a service
	test|php-pgsql|workload cms: its way to the database
	test|sysbench|tool sysbench: the CPU and memory tests as the platform ships them
	test|bonnie++|tool bonnie: one pass over a big file and many small ones
	test|fio|tool fio: reads and writes of one file
	test|openssl|tool openssl: the speed of a hash or a cipher
	test|busybox-static|programs without libraries for the tests of roots and RAM disks
	test|cpio|reads the RAM disks that the tests write
	test|strace|sees which system calls a trial makes
	check|gcc|the race detector of go test -race
	check|libc6-dev|the same
	LIST
}

say() { printf 'setup: %s\n' "$*"; }
die() { printf 'setup: %s\n' "$*" >&2; exit 1; }

only_say=no
if [ "${1:-}" = -n ]; then only_say=yes; shift; fi
[ $# -gt 0 ] || set -- run
for group; do
	packages | grep -q "^$group|" || die "no group $group; there are run, technologies, test and check"
done

wanted() {
	for group; do packages | sed -n "s/^$group|//p"; done
}

installed() {
	[ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

# available tells whether apt could install a package. Ubuntu's chromium is an
# empty package that calls for snap, which test machines do not have.
available() {
	case "$(apt-cache policy "$1" 2>/dev/null | sed -n 's/^ *Candidate: //p')" in
	'' | '(none)' | *snap*) return 1 ;;
	esac
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
	say "this is not Debian or Ubuntu. bakeoff drives these programs where they are installed:"
	wanted "$@" | sed 's/^?//; s/|/: /; s/^/  /'
	say "bakeoff doctor says which of them it found"
	exit 0
fi

# lists tells whether apt knows what there is.
lists() {
	for list in /var/lib/apt/lists/*_Packages*; do
		[ ! -e "$list" ] || return 0
	done
	return 1
}

# What this system does not have, and does without, is not missing.
foregone() {
	[ "$1" != "${1#\?}" ] && lists && ! available "${1#\?}"
}

missing=''
while IFS='|' read -r package why; do
	installed "${package#\?}" || foregone "$package" || missing="$missing $package"
done <<LIST
$(wanted "$@")
LIST
[ -n "$missing" ] || { say "nothing is missing for: $*"; exit 0; }

say "missing for $*:"
wanted "$@" | while IFS='|' read -r package why; do
	case "$missing " in *" $package "*) say "  ${package#\?} – $why" ;; esac
done
[ "$only_say" = no ] || exit 0

# One question for root, for the whole of it.
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null ||
		die "needs root and there is no sudo. As root: apt-get install --no-install-recommends$(printf ' %s' $missing | tr -d '?')"
	if [ -t 0 ]; then
		exec sudo sh "$0" "$@"
	fi
	sudo -n true || die "sudo wants a password and there is no terminal to ask on"
	exec sudo -n sh "$0" "$@"
fi

# Debian starts a server when it is installed. A policy that forbids it stands
# for as long as this script runs, unless the machine has one of its own.
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

# The lists are fetched when a package is not in them, or is there in a
# version that the mirror has no more.
update() {
	say "fetching the lists of packages"
	for wait in 2 8 0; do
		apt update && return 0
		say "apt-get update failed; once more in $wait s"
		sleep "$wait"
	done
	die "apt-get update failed; see above"
}
for package in $missing; do
	available "${package#\?}" || { update; break; }
done

names=''
for package in $missing; do
	if available "${package#\?}"; then
		names="$names ${package#\?}"
	elif [ "$package" != "${package#\?}" ]; then
		say "${package#\?} is not to be had as a package here; going on without it"
	else
		die "$package is not to be had here: enable Debian's main or Ubuntu's universe in /etc/apt/sources.list"
	fi
done
[ -n "$names" ] || exit 0

# shellcheck disable=SC2086 # a list of names
apt install --no-install-recommends $names || {
	update
	apt install --no-install-recommends $names || die "apt-get install failed; see above"
}
say "installed:$names"
