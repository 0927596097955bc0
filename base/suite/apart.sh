#!/bin/sh
# go test -exec base/suite/apart.sh ... starts the tests of a package without the
# capabilities to change the machine. The tests of a package whose folder matches the
# regular expression BAKEOFF_TEST_APART keep them, in a network and a mount namespace of
# their own, which end with the tests. Tests below e2e also get a folder of their own for the
# state of machines that they reach over SSH: each is this machine. They get an address, too:
# without one besides 127.0.0.1, the getaddrinfo of glibc finds none for Slurm. Users who may
# do neither cannot change the machine anyway.
if echo "$PWD" | grep -qE "/(${BAKEOFF_TEST_APART:-none})\$"; then
	! unshare --mount --net true 2>/dev/null ||
		exec unshare --mount --net sh -c '
			ip link set lo up || exit
			case $PWD in */e2e/*)
				ip address add 192.0.2.1/32 dev lo || exit
				mkdir -p /var/lib/bakeoff && mount -t tmpfs bakeoff /var/lib/bakeoff || exit ;;
			esac
			exec "$0" "$@"' "$@"
fi
! setpriv --bounding-set=-sys_admin,-net_admin true 2>/dev/null ||
	exec setpriv --bounding-set=-sys_admin,-net_admin "$@"
exec "$@"
