package engine

import (
	"os/exec"
	"strings"
	"testing"

	"bakeoff/base/shell"
)

// TestMountsOutOfServices mounts and unmounts what a plan mounts, while services have mount
// namespaces, one from before and one from meanwhile: a mount that stays in one of them keeps
// the pool busy.
func TestMountsOutOfServices(t *testing.T) {
	m := newMachine(t, 1)
	p := m.plan(debianSpec)
	var do, undo []string
	for _, id := range []string{"mount-point", "bind-dev", "bind-proc", "bind-sys"} {
		s := p.Step(id)
		do = append(do, shell.Quote(s.Argv...))
		undo = append([]string{shell.Quote(s.Undo...)}, undo...)
		if id == "mount-point" { // the boot environment is mounted over it
			do = append(do, "mount -t tmpfs system /mnt", "mkdir /mnt/dev /mnt/proc /mnt/sys /mnt/home",
				"mount -t tmpfs home /mnt/home")
		}
	}
	undo = append(undo[:len(undo)-1], "umount /mnt/home", "umount /mnt", undo[len(undo)-1])
	body := `set -eu
mount --make-rshared /
mount -t tmpfs rescue /mnt
mkdir /mnt/mnt
mount --rbind /mnt/mnt /mnt
service() {
	mkfifo "$1"
	unshare --mount --propagation slave sh -c 'echo ready >"$1"; exec sleep 3600' sh "$1" & all="$all $!"
	read -r ready <"$1"
}
all=
trap 'kill $all' EXIT
service before
` + strings.Join(do, "\n") + `
service meanwhile
test "$(findmnt -n -o FSROOT,PROPAGATION --mountpoint /mnt | grep -c 'mnt.*shared')" -ge 1
` + strings.Join(undo, "\n") + `
for pid in $all; do
	if grep -E ' /mnt(/| ).*( tmpfs (system|home)|devtmpfs|proc|sysfs) ' /proc/$pid/mountinfo; then
		echo "a service holds mounts of the installation"
		exit 1
	fi
done
mountpoint -q /proc
`
	cmd := exec.Command("unshare", "--mount", "--propagation", "private", "sh", "-c", body)
	cmd.Dir = t.TempDir()
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
