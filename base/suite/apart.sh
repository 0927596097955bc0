#!/bin/sh
# go test -exec base/suite/apart.sh ... starts the tests of a package without the
# capabilities to change the machine. The tests of a package whose folder ends in one of
# BAKEOFF_TEST_APART keep them, in a network and a mount namespace of their own, which end
# with the tests. Users who may do neither cannot change the machine anyway.
for folder in ${BAKEOFF_TEST_APART-}; do
	case $PWD in
	*/"$folder")
		! unshare --mount --net true 2>/dev/null ||
			exec unshare --mount --net sh -c 'ip link set lo up && exec "$0" "$@"' "$@" ;;
	esac
done
! setpriv --bounding-set=-sys_admin,-net_admin true 2>/dev/null ||
	exec setpriv --bounding-set=-sys_admin,-net_admin "$@"
exec "$@"
