package guests

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/driver/qemu/bootdisk"
	"bakeoff/provision/guest/qemu"
	"bakeoff/provision/vm"
)

// The texts that the systems of ownEntry print.
const (
	entryMade = "an entry is made"
	entryRuns = "the boot entry runs"
)

// ownEntry is a disk that UEFI does not start by itself. The firmware therefore starts its shell, whose
// script makes a boot entry for a program of the disk, as an installer does, and switches the machine off.
// The program prints a text and waits. It reads nothing: the answers of the second serial port, which is
// a console for UEFI, would be commands.
func ownEntry(t *testing.T) string {
	t.Helper()
	if what, pkg := bootdisk.Lacks(); what != "" {
		t.Skipf("needs %s: apt-get install %s", what, pkg)
	}
	if _, err := os.Stat(qemu.OVMFVariables); err != nil {
		t.Skip("needs OVMF: apt-get install ovmf")
	}
	c := exec.Command("sh", "-ec", `printf 'echo %s\nsleep 100000\n' "$1" >menu
grub-mkimage -O x86_64-efi -p /grub -c menu -o own.efi echo sleep
printf '%s\r\n' '@echo -off' 'fs0:' 'bcfg boot add 0 fs0:\own.efi own' "echo $2" 'reset -s' >startup.nsh
truncate -s 4M disk.raw
mformat -i disk.raw ::
mcopy -i disk.raw own.efi startup.nsh ::`, "sh", entryRuns, entryMade)
	c.Dir = t.TempDir()
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return filepath.Join(c.Dir, "disk.raw")
}

// The firmware starts what a boot entry names that was made in the guest. Snapshots have the entry if
// the guest had it, another host gets it, and another image does not.
func TestVariables(t *testing.T) {
	h, to := home(t), secondHome(t)
	disk := "disk:" + ownEntry(t)
	do(t, h, "create", "-f", file(t, "box.json", fmt.Sprintf(`{"brand": "bhyve", "alias": "box", "ram": 256,
		"bootrom": "uefi", "autoboot": false, "disks": [{"image": %q, "boot": true}]}`, disk)))
	seen := ""
	boots := func(h e2e.Home, want string) {
		t.Helper()
		got := prints(t, h, "box", seen, want)
		if strings.Contains(got, entryMade) && strings.Contains(got, entryRuns) {
			t.Errorf("one boot prints %q", got)
		}
		for end := time.Now().Add(limit); want == entryMade && guest(t, h, "box").State != vm.Stopped; {
			if time.Sleep(20 * time.Millisecond); time.Now().After(end) {
				t.Fatalf("it is %+v", guest(t, h, "box"))
			}
		}
		seen = printed(t, h, "box")
	}
	do(t, h, "create-snapshot", "box", "blank")
	do(t, h, "start", "box")
	boots(h, entryMade)
	do(t, h, "create-snapshot", "box", "made")
	do(t, h, "start", "box")
	boots(h, entryRuns)
	do(t, h, "create-snapshot", "box", "running")

	do(t, h, "rollback-snapshot", "box", "blank")
	do(t, h, "start", "box")
	boots(h, entryMade)
	do(t, h, "rollback-snapshot", "box", "running")
	if g := guest(t, h, "box"); g.State != vm.Running {
		t.Errorf("with the memory of the snapshot, it is %+v", g)
	}
	do(t, h, "stop", "-F", "box")
	do(t, h, "rollback-snapshot", "box", "blank")
	do(t, h, "rollback-snapshot", "box", "made")

	send, receive := h.Command("vm", "send", "box"), to.Command("vm", "receive")
	var err error
	if receive.Stdin, err = send.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := send.Start(); err != nil {
		t.Fatal(err)
	}
	if out, err := receive.CombinedOutput(); err != nil {
		t.Fatalf("receive: %v\n%s", err, out)
	}
	if err := send.Wait(); err != nil {
		t.Fatal(err)
	}
	here := seen
	seen = ""
	do(t, to, "start", "box")
	boots(to, entryRuns)
	removeGuests(t, to)
	leavesNothing(t, to)

	seen = here
	do(t, h, "reprovision", "box", "-f", file(t, "image.json", fmt.Sprintf(`{"image": %q}`, disk)))
	boots(h, entryMade)
	do(t, h, "delete", "box")
	leavesNothing(t, h)
}
