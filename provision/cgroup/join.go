package cgroup

import (
	"os/exec"

	"bakeoff/base/fault"
)

// Join returns a command line of this machine for a shell that joins the group and
// becomes the program of argv. A shell starts in a third of the time of `bakeoff-agent
// enter`, which does the same everywhere. If the group cannot be joined, the shell ends
// with the code 125.
func (g *Group) Join(argv []string) ([]string, error) {
	// A shell looks a program up by trying to execute it in each directory.
	file, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, "", err)
	}
	out := append([]string{"sh", "-c", joinScript, "sh"}, g.dirs...)
	return append(append(out, "--", file), argv[1:]...), nil
}

// joinScript joins the groups whose directories are its arguments before --, and
// becomes the program after it. It moves to the groups as `enter` does: in version
// 1 as a thread, which does not wait for other CPUs; in version 2 it may have
// started in the group. The process that writes 0 moves itself (cgroups(7)), so
// echo must be a part of the shell, as in every shell.
const joinScript = `for dir do
	shift
	[ "$dir" = -- ] && break
	if [ -e "$dir/tasks" ]; then
		file=tasks there=
	else
		file=cgroup.procs there=
		while read -r pid; do
			[ "$pid" = $$ ] && there=1
		done <"$dir/cgroup.procs"
	fi
	[ "$there" ] || echo 0 >"$dir/$file" || { echo "join cgroup $dir: failed" >&2; exit 125; }
done
exec "$@"`
