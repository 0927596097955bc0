package guests

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
)

// talker is the code of a boot sector that prints a letter at the serial line, and then restarts
// the machine or halts.
func talker(letter byte, restarts bool) []byte {
	code := []byte{0xba, 0xf8, 0x03, 0xb0, letter, 0xee, 0xb0, '\n', 0xee} // mov dx, 3f8h; out dx, letter; out dx, LF
	if restarts {
		code = append(code, 0xb0, 0xfe, 0xe6, 0x64) // out 64h, feh: the keyboard controller resets the machine
	}
	return append(code, 0xf4, 0xeb, 0xfd) // hlt; jmp there
}

// talkingDisk is a disk whose boot sector prints a letter and halts.
func talkingDisk(t *testing.T, letter byte) string {
	t.Helper()
	disk := make([]byte, 1<<20)
	copy(disk, talker(letter, false))
	disk[510], disk[511] = 0x55, 0xaa
	return file(t, string(letter)+".raw", string(disk))
}

// talkingCD is an ISO image that prints a letter and restarts the machine.
//
// Source: El Torito Bootable CD-ROM Format Specification, version 1.0.
func talkingCD(t *testing.T, letter byte) string {
	t.Helper()
	const sector, catalog, image = 2048, 19, 20
	cd := make([]byte, 32*sector)
	for i, kind := range []byte{1, 0, 255} { // primary volume, boot record, end
		at := cd[(16+i)*sector:]
		at[0], at[6] = kind, 1
		copy(at[1:], "CD001")
	}
	copy(cd[17*sector+7:], "EL TORITO SPECIFICATION")
	binary.LittleEndian.PutUint32(cd[17*sector+0x47:], catalog)
	entry := cd[catalog*sector:]
	entry[0], entry[30], entry[31] = 1, 0x55, 0xaa
	sum := uint16(0)
	for i := 0; i < 32; i += 2 {
		sum += binary.LittleEndian.Uint16(entry[i:])
	}
	binary.LittleEndian.PutUint16(entry[28:], -sum)
	entry[32] = 0x88 // bootable, without the emulation of a disk
	binary.LittleEndian.PutUint16(entry[38:], 4)
	binary.LittleEndian.PutUint32(entry[40:], image)
	copy(cd[image*sector:], talker(letter, true))
	return file(t, string(letter)+".iso", string(cd))
}

// printed is all that a guest has printed.
func printed(t *testing.T, h e2e.Home, name string) string {
	t.Helper()
	out, errs, code := h.Bakeoff(t, limit, "vm", "logs", name)
	if code != 0 {
		t.Fatalf("logs: exit code %d: %s", code, errs)
	}
	return out
}

// prints waits until a machine has printed a text after what it had printed before, and returns
// all of it.
func prints(t *testing.T, h e2e.Home, name, before, text string) string {
	t.Helper()
	for end := time.Now().Add(3 * time.Minute); ; time.Sleep(20 * time.Millisecond) {
		got, ok := strings.CutPrefix(printed(t, h, name), before)
		if ok && strings.Contains(got, text) {
			return got
		}
		if time.Now().After(end) {
			t.Fatalf("%s has printed %q after %q, not %q", name, got, before, text)
		}
	}
}

// A start takes its order of devices and its further drives from the command line, for that start
// only: a machine starts from the CD once, and from its disk when it restarts itself.
func TestBootOrder(t *testing.T) {
	h := home(t)
	cd, other := talkingCD(t, 'D'), talkingDisk(t, 'O')
	do(t, h, "create", "-f", file(t, "box.json", fmt.Sprintf(`{"brand": "kvm", "alias": "box", "ram": 64,
		"autoboot": false, "disks": [{"image": "disk:%s", "boot": true}]}`, talkingDisk(t, 'C'))))
	seen := ""
	start := func(want string, args ...string) {
		t.Helper()
		do(t, h, append([]string{"start", "box"}, args...)...)
		got := prints(t, h, "box", seen, want)
		if want == "C\n" && got != want || !strings.HasPrefix(got, want[:1]) {
			t.Errorf("start %q prints %q", args, got)
		}
		wants := strings.Contains(strings.Join(args, " "), cd)
		if has := strings.Contains(do(t, h, "info", "box", "block"), cd); has != wants {
			t.Errorf("after start %q the machine has the CD: %v", args, has)
		}
	}
	end := func() {
		t.Helper()
		do(t, h, "stop", "-F", "box")
		seen = printed(t, h, "box")
	}
	start("C\n")
	end()
	// A BIOS sees a CD of virtio as one more disk.
	for model, want := range map[string]string{"ide": "D\nC\n", "scsi": "D\nC\n", "virtio": "C\n"} {
		args := []string{"order=cd,once=d", "cdrom=" + cd + "," + model}
		if model == "virtio" {
			args = args[1:]
		}
		start(want, args...)
		refused(t, h, 1, "extra disks that its manifest does not name", "create-snapshot", "box", "s")
		end()
	}
	start("D\nD\nD\n", "order=dc", "cdrom="+cd+",ide", "disk="+other+",virtio")
	out, errs, code := h.Bakeoff(t, limit, "vm", "start", "box", "order=c")
	if code != 0 || out != "" || !strings.Contains(errs, "runs already; stop it first") {
		t.Errorf("start of a guest that runs: %d, %s%s", code, out, errs)
	}
	end()
	do(t, h, "update", "box", "boot=order=dc") // its CD is gone
	start("C\n")
	end()
	for args, want := range map[string]string{"order=xy": "not an order of boot devices", "order": "not an order",
		"cdrom=" + cd: "has no model", "disk=" + cd + ",nvme": "there is no model nvme",
		"once=c": "is not an option of a start"} {
		refused(t, h, 2, want, "start", "box", args)
	}
	for args, want := range map[string]string{"cdrom=/nowhere.iso,ide": "no such file", "order=n": "no NIC to start from",
		"disk=" + guest(t, h, "box").Disks[0].Path + ",virtio": "has this disk"} {
		refused(t, h, 1, want, "start", "box", args)
	}
	do(t, h, "run", cd, "--accel", "tcg", "--name", "iso", "--memory", "64MiB") // that of an installer
	prints(t, h, "iso", "", "D\nD\n")
	// With an empty disk, the CD is started until the installer has made that one bootable.
	do(t, h, "run", cd, "--accel", "tcg", "--name", "both", "--memory", "64MiB", "--disk-size", "8MiB")
	prints(t, h, "both", "", "D\nD\n")
	do(t, h, "stop", "-F", "both")
	seen = printed(t, h, "both")
	install := exec.Command("qemu-img", "convert", "-n", "-f", "raw", "-O", "qcow2", talkingDisk(t, 'I'),
		filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", guest(t, h, "both").UUID, "disk0.qcow2"))
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	do(t, h, "start", "both")
	if got := prints(t, h, "both", seen, "\n"); !strings.HasPrefix(got, "I") {
		t.Errorf("after the installation, the machine prints %q", got)
	}
	if g := guest(t, h, "box"); g.State != vm.Stopped {
		t.Errorf("after refused starts: %+v", g.Status)
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}

// Further consoles of a machine are sockets, which info names. Bytes go both ways on each.
func TestConsolesOfMachine(t *testing.T) {
	h := home(t)
	do(t, h, "create", "-f", file(t, "c.json", fmt.Sprintf(`{"brand": "microvm", "alias": "c", "image": %q, "ram": 256,
		"consoles": 2}`, service(t, "web"))))
	sockets := consolesOf(t, h, "c")
	if len(sockets) != 2 || filepath.Dir(sockets[1]) != filepath.Dir(sockets[0]) {
		t.Fatalf("info names %q", sockets)
	}
	for i, socket := range sockets {
		s, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		answered := make(chan error, 1)
		go func() {
			lines := bufio.NewScanner(s)
			for lines.Scan() {
				if strings.Contains(lines.Text(), fmt.Sprint("inside got hello", i)) {
					answered <- nil
					return
				}
			}
			answered <- errors.Join(lines.Err(), errors.New("the console ended"))
		}()
		ended := make(chan struct{})
		go func() { // until somebody reads it
			for {
				if _, err := fmt.Fprintf(s, "hello%d\n", i); err != nil {
					return
				}
				select {
				case <-ended:
					return
				case <-time.After(100 * time.Millisecond):
				}
			}
		}()
		do(t, h, "exec", "c", "--", "sh", "-c", fmt.Sprintf(
			`exec 3<>/dev/hvc%d; stty -echo <&3; read -r x <&3; echo "inside got $x" >&3; read -r x <&3`, i))
		close(ended)
		select {
		case err := <-answered:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Errorf("console %d says nothing", i+1)
		}
	}
	refused(t, h, 1, "do not have this property", "create", "-f",
		file(t, "bad.json", `{"brand": "docker", "image": "a", "consoles": 1}`))
	removeGuests(t, h)
	leavesNothing(t, h)
}

// The microVM of a service has the router and the name server of its network.
func TestServiceLeadsOut(t *testing.T) {
	h := home(t)
	do(t, h, "network", "create", "out", "--subnet", "198.18.78.0/24")
	do(t, h, "create", "-f", file(t, "s.json", fmt.Sprintf(`{"brand": "microvm", "alias": "s", "image": %q, "ram": 256,
		"nics": [{"nic_tag": "out", "ips": "198.18.78.5/24", "gateways": "198.18.78.9"}]}`, service(t, "web"))))
	if got := do(t, h, "exec", "s", "--", "cat", "/etc/resolv.conf"); got != "nameserver 198.18.78.1" {
		t.Errorf("resolv.conf is %q", got)
	}
	routes := do(t, h, "exec", "s", "--", "cat", "/proc/net/route") // addresses are in hexadecimal, from the last byte
	if !slices.ContainsFunc(strings.Split(routes, "\n"), func(line string) bool {
		f := strings.Fields(line)
		return len(f) > 2 && f[1] == "00000000" && f[2] == "094E12C6"
	}) {
		t.Errorf("no route leads to 198.18.78.9:\n%s", routes)
	}
	removeGuests(t, h)
	do(t, h, "network", "delete", "out")
	leavesNothing(t, h)
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

// consolesOf are the sockets of the further consoles of a machine.
func consolesOf(t *testing.T, h e2e.Home, name string) []string {
	t.Helper()
	var info struct{ Consoles []string }
	decode(t, do(t, h, "info", name, "consoles"), &info)
	for _, socket := range info.Consoles {
		if _, err := os.Stat(socket); err != nil {
			t.Error(err)
		}
	}
	return info.Consoles
}
