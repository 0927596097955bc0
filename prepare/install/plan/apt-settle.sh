#!/bin/sh
# Completes what an interrupted apt-get left in the system below ROOT. When apt-get is only repeated, it leaves out
# packages that are only recommended, and may leave a package half-installed. It writes which packages it chose by
# itself to a file before it installs anything.
# usage: apt-settle ROOT [list]. With list, it prints the names of such packages, and changes nothing.
# bakeoff install wrote this script.
set -eu
root=$1
chosen=$root/var/lib/apt/extended_states
states=$(chroot "$root" dpkg-query -W -f '${db:Status-Abbrev}${Package}\n')
# state prints the packages in a state, an expression for what dpkg-query prints, such as "ii ".
state() {
	printf '%s\n' "$states" | sed -n "s/^$1 *//p"
}
unfinished=$(state '.[HUFWt].')
again=$(state '.H.\|..R')
have=" $(state '.[UFWti].' | tr '\n' ' ') "
[ ! -e "$chosen" ] ||
	for package in $(sed -n '/^Package:/h; /^Auto-Installed: 1$/{x; s/^Package: //p;}' "$chosen"); do
		case $have in
		*" $package "*) ;;
		*) again="$again $package" ;;
		esac
	done
[ -n "$unfinished$again" ] || exit 0
if [ "${2:-}" = list ]; then
	printf '%s\n' $unfinished $again | sort -u
	exit 0
fi
# dkms stops at a module that it had not installed completely. It makes the module again if it finds nothing of it.
for package in $unfinished; do
	case $package in
	*-dkms) chroot "$root" dpkg -L "$package" | sed -n 's|^/usr/src/[^/]*/dkms\.conf$|& *|p' ;;
	linux-image-[0-9]*)
		for conf in "$root"/usr/src/*/dkms.conf; do
			[ ! -e "$conf" ] || echo "${conf#"$root"} ${package#linux-image-}"
		done
		;;
	esac
done | while read -r conf kernel; do
	value() { sed -n "s/^$1=//p" "$root$conf" | tr -d "\"'"; }
	name=$(value PACKAGE_NAME)
	[ -n "$name" ] || continue
	tree=$root/var/lib/dkms/$name
	if [ "$kernel" = '*' ]; then
		rm -rf "$tree"
	elif ls -d "$tree/kernel-$kernel-"* >/dev/null 2>&1; then # dkms links it last
		continue
	fi
	rm -rf "$tree"/*/$kernel
	for module in "$name" $(value 'BUILT_MODULE_NAME\[[0-9]*]'); do
		rm -f "$root/lib/modules/"$kernel/updates/dkms/"$module".ko*
	done
done
export DEBIAN_FRONTEND=noninteractive INITRD=No
chroot "$root" apt-get install --fix-broken --reinstall --mark-auto -y -o Dpkg::Options::=--force-confold $again
chroot "$root" dpkg --configure --pending
