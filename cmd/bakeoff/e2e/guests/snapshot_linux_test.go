package guests

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bakeoff/cmd/bakeoff/e2e"
	"bakeoff/provision/vm"
)

// counter is a service whose program prints a number every 50 ms.
func counter(t *testing.T, h e2e.Home) string {
	t.Helper()
	dir := filepath.Join(h.Dir, "counter")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	e2e.Build(t, `package main

import (
	"fmt"
	"time"
)

func main() {
	for i := 0; ; i++ {
		fmt.Printf("count %d\n", i)
		time.Sleep(50 * time.Millisecond)
	}
}
`, filepath.Join(dir, "count"))
	text := "schema: bakeoff/service/v1\nname: counter\nbase: scratch\nfiles: [{from: count, to: /count}]\nrun: [/count]\n"
	if err := os.WriteFile(filepath.Join(dir, "service.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// counted are the numbers that a guest has printed.
func counted(t *testing.T, h e2e.Home, name string) (out []int) {
	t.Helper()
	for line := range strings.Lines(do(t, h, "logs", name)) {
		var n int
		if _, err := fmt.Sscanf(line, "count %d", &n); err == nil {
			out = append(out, n)
		}
	}
	return out
}

// counts waits until a guest has printed a number after it had printed n of them.
func counts(t *testing.T, h e2e.Home, name string, n int) []int {
	t.Helper()
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if all := counted(t, h, name); len(all) > n {
			return all
		}
	}
	t.Fatalf("%s does not count: %s", name, do(t, h, "logs", name))
	return nil
}

// diskOf is the file of the first disk of a guest.
func diskOf(h e2e.Home, uuid string) string {
	return filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", uuid, "disk0.qcow2")
}

// writeDisk fills the first sector of a disk, and hasDisk tells whether it has that content.
func writeDisk(t *testing.T, file string, pattern int) {
	t.Helper()
	write := fmt.Sprintf("write -P %d 0 512", pattern)
	if out, err := exec.Command("qemu-io", "-f", "qcow2", "-c", write, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

func hasDisk(t *testing.T, file string, pattern int) bool {
	t.Helper()
	out, err := exec.Command("qemu-io", "-f", "qcow2", "-c", fmt.Sprintf("read -P %d 0 512", pattern),
		file).CombinedOutput()
	if bytes.Contains(out, []byte("Pattern verification failed")) {
		return false
	}
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return true
}

// A machine returns to its snapshot with its memory: its program counts on from there. Its
// manifest and its metadata are those of the snapshot again.
func TestSnapshotOfRunningMachine(t *testing.T) {
	h := home(t)
	dir := counter(t, h)
	uuid := do(t, h, "run", dir, "--name", "c", "--accel", "tcg", "--memory", "128MiB")
	counts(t, h, "c", 3)
	do(t, h, "update", "c", "-f", file(t, "tags.json", `{"set_tags": {"role": "old"}}`))
	do(t, h, "create-snapshot", "c", "a:1")
	at := counts(t, h, "c", 0)
	refused(t, h, 1, "has a snapshot", "create-snapshot", "c", "a:1")
	refused(t, h, 1, "is not the name of a snapshot", "create-snapshot", "c", "a/1")
	refused(t, h, 1, "has no snapshot", "rollback-snapshot", "c", "b")
	do(t, h, "create-snapshot", "c", "later")
	do(t, h, "update", "c", "-f", file(t, "more.json", `{"alias": "d", "set_tags": {"role": "new"}, "ram": 160}`))
	counts(t, h, "d", len(at)+20)
	before := len(counted(t, h, "d"))
	do(t, h, "rollback-snapshot", "d", "a:1")
	g := guest(t, h, uuid)
	if g.State != vm.Running || g.Alias != "c" || g.RAM != 128 || g.Tags["role"] != "old" {
		t.Errorf("after the rollback: %+v", g)
	}
	// The number after the rollback follows the last one of the snapshot, which was printed
	// before at was read; a guest that booted would begin with 0.
	back := 0
	for end := time.Now().Add(5 * time.Minute); back == 0 && time.Now().Before(end); {
		all := counts(t, h, "c", before)
		for i, n := range all {
			if i > 0 && n <= all[i-1] {
				back = n
			}
		}
	}
	if back == 0 || back > at[len(at)-1]+1 {
		t.Errorf("it had counted to at most %d at the snapshot, and continues with %d", at[len(at)-1], back)
	}
	if got := do(t, h, "list", "-H", "-o", "alias,snapshots"); got != "c  a:1,later" {
		t.Errorf("list prints %q", got)
	}
	do(t, h, "delete-snapshot", "c", "a:1") // while it runs
	do(t, h, "stop", "c", "-F")
	do(t, h, "delete-snapshot", "c", "later")
	if out, err := exec.Command("qemu-img", "snapshot", "-l", diskOf(h, uuid)).CombinedOutput(); err != nil ||
		len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("the disk has snapshots: %v\n%s", err, out)
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}

// What the programs of a container have written returns with its snapshot, and what they have
// written since is gone.
func TestSnapshotOfContainer(t *testing.T) {
	h := home(t)
	do(t, h, "run", service(t, "web"), "--brand", "docker", "--name", "c")
	sh := func(text string) string { t.Helper(); return do(t, h, "exec", "c", "--", "sh", "-c", text) }
	sh("echo one >/data; rm /etc/hostname; mkdir /made; ln /data /hard")
	do(t, h, "create-snapshot", "c", "one")
	sh("echo two >/data; echo x >/etc/hostname; rmdir /made; rm /hard; touch /since")
	do(t, h, "update", "c", "ram=300")
	do(t, h, "rollback-snapshot", "c", "one")
	if got := sh("cat /data; ls -d /made /since /etc/hostname 2>/dev/null; stat -c %h /hard"); got != "one\n/made\n2" {
		t.Errorf("after the rollback: %q", got)
	}
	if g := guest(t, h, "c"); g.State != vm.Running || g.RAM != 512 {
		t.Errorf("after the rollback: %+v", g)
	}
	do(t, h, "stop", "c")
	do(t, h, "create-snapshot", "c", "stopped")
	do(t, h, "start", "c")
	do(t, h, "rollback-snapshot", "c", "stopped")
	if g := guest(t, h, "c"); g.State != vm.Stopped || g.Autoboot {
		t.Errorf("after the rollback to the stopped guest: %+v", g)
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}

// Rollbacks are killed at random moments. Disk and manifest are always those of one snapshot.
func TestKilledRollback(t *testing.T) {
	h := home(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var uuids []string
	for _, brand := range []string{"docker", "microvm"} {
		text := "{brand: " + brand + ", alias: " + brand + ", autoboot: false, tags: {v: 0}, image: " +
			service(t, "web") + "}"
		do(t, h, "create", "-f", file(t, "g.yaml", text))
		uuids = append(uuids, guest(t, h, brand).UUID)
	}
	written := filepath.Join(h.Variable("BAKEOFF_STATE"), "env", "vm-"+uuids[0], "upper")
	for v := 1; v <= 2; v++ {
		for _, uuid := range uuids {
			do(t, h, "update", uuid, "-f", file(t, "u.json", fmt.Sprintf(`{"set_tags": {"v": %d}}`, v)))
		}
		writeDisk(t, diskOf(h, uuids[1]), v)
		if err := os.MkdirAll(written, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(written, "v"), []byte(fmt.Sprint(v)), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, uuid := range uuids {
			do(t, h, "create-snapshot", uuid, fmt.Sprint("s", v))
		}
	}
	reached := map[string]int{}
	for range 4 * kills {
		i, to := r.IntN(2), r.IntN(2)+1
		c := h.Command("vm", "rollback-snapshot", uuids[i], fmt.Sprint("s", to))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(r.IntN(150)) * time.Millisecond)
		_ = c.Process.Kill()
		_ = c.Wait()
		shown := fmt.Sprint(guest(t, h, uuids[i]).Tags["v"])
		do(t, h, "stop", uuids[i]) // finishes what was begun
		v := fmt.Sprint(guest(t, h, uuids[i]).Tags["v"])
		if v != shown {
			t.Errorf("the guest shows v=%s, and becomes v=%s", shown, v)
		}
		if i == 0 {
			if text, err := os.ReadFile(filepath.Join(written, "v")); err != nil || string(text) != v {
				t.Errorf("the manifest says v=%s, and the files %q, %v", v, text, err)
			}
		} else if n := map[string]int{"1": 1, "2": 2}[v]; !hasDisk(t, diskOf(h, uuids[1]), n) {
			t.Errorf("the manifest says v=%s, and the disk has another content", v)
		}
		reached[fmt.Sprintf("wanted %d, is %s", to, v)]++
	}
	t.Logf("%v", reached)
	removeGuests(t, h)
	leavesNothing(t, h)
}

// reprovision replaces the image, and with it what was written; manifest, ports and metadata
// stay. A wrong image changes nothing.
func TestReprovision(t *testing.T) {
	h := home(t)
	first, second := tiny(t, h), counter(t, h)
	for name, brand := range map[string]string{"c": "docker", "m": "microvm"} {
		uuid := do(t, h, "run", first, "--brand", brand, "--name", name, "--memory", "128MiB")
		do(t, h, "update", name, "-f", file(t, "u.json", `{"set_tags": {"role": "front"}}`))
		do(t, h, "create-snapshot", name, "s")
		refused(t, h, 1, "nothing else", "reprovision", name, "-f", file(t, "a.json", `{"image": "x", "ram": 1}`))
		refused(t, h, 1, "", "reprovision", name, "-f", file(t, "b.json", `{"image": "/no/such/folder"}`))
		if g := guest(t, h, name); g.State != vm.Running || len(g.Snapshots) != 1 {
			t.Errorf("a refused reprovision changed %+v", g)
		}
		do(t, h, "reprovision", name, "-f", file(t, "c.json", `{"image": "`+second+`"}`))
		counts(t, h, name, 3)
		if g := guest(t, h, name); g.UUID != uuid || g.State != vm.Running || g.Image != second ||
			g.Tags["role"] != "front" || len(g.Snapshots) != 0 {
			t.Errorf("after reprovision: %+v", g)
		}
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}
