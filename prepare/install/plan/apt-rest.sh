#!/bin/sh
# Installs what an interrupted apt-get chose by itself and did not install, and again what it was unpacking.
# When apt-get is repeated, it leaves out packages that are only recommended, and may leave one half-installed.
# It writes its choice to a file before it installs anything.
# usage: apt-rest ROOT. bakeoff install wrote this script.
set -eu
root=$1
chosen=$root/var/lib/apt/extended_states
state() {
	chroot "$root" dpkg-query -W -f '${db:Status-Abbrev}${Package}\n' | sed -n "s/^$1 *//p"
}
have=" $(state ii | tr '\n' ' ') "
rest=$(state ..R)
[ ! -e "$chosen" ] ||
	for package in $(sed -n '/^Package:/h; /^Auto-Installed: 1$/{x; s/^Package: //p;}' "$chosen"); do
		case $have in
		*" $package "*) ;;
		*) rest="$rest $package" ;;
		esac
	done
[ -z "$rest" ] ||
	chroot "$root" env DEBIAN_FRONTEND=noninteractive INITRD=No apt-get install --fix-broken --reinstall --mark-auto -y \
		-o Dpkg::Options::=--force-confold $rest
