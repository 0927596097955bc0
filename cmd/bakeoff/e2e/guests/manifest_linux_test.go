package guests

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bakeoff/provision/vm"
	"bakeoff/provision/vm/manifest"
)

// testdata is a file of the tests of manifests.
func testdata(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../../../provision/vm/manifest/testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// file writes a manifest.
func file(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The manifest of a web page about SmartOS creates a guest, if its image is one that is here.
// Copies of it with one property wrong create nothing, and each error has the path, the value
// and the reason.
func TestManifestOfSmartOS(t *testing.T) {
	h := home(t)
	newbox := testdata(t, "newbox.json")
	var copies []struct{ Old, New, Path, Value, Reason string }
	if err := json.Unmarshal([]byte(testdata(t, "wrong.json")), &copies); err != nil || len(copies) < 60 {
		t.Fatalf("%d copies, %v", len(copies), err)
	}
	for part := range slices.Chunk(copies, 20) {
		var all []string
		for _, c := range part {
			all = append(all, strings.Replace(newbox, c.Old, c.New, 1))
		}
		errs := refused(t, h, 1, "", "create", "-f", file(t, "copies.json", "["+strings.Join(all, ",\n")+"]"))
		for i, c := range part {
			want := fmt.Sprintf(": %d.%s: ", i, c.Path)
			if c.Value != "" {
				want += c.Value + ": "
			}
			if !slices.ContainsFunc(strings.Split(errs, "\n"), func(line string) bool {
				return strings.Contains(line, want) && strings.Contains(line, c.Reason)
			}) {
				t.Errorf("%s: no line has %q and %q:\n%s", c.New, want, c.Reason, errs)
			}
		}
	}
	for part, reason := range map[string]string{`"vga": "qxl"`: "no such adapter", `"qemu_opts": "-vnc x"`: "command line",
		`"zfs_io_priority": 7`: "no ZFS data"} {
		refused(t, h, 1, reason, "create", "-f", file(t, "a.json", strings.Replace(newbox, `"vcpus": "2"`, part, 1)))
	}
	refused(t, h, 1, "bakeoff image import d8e65ea2", "create", "-f", file(t, "b.json", newbox))
	if all := guests(t, h); len(all) != 0 {
		t.Errorf("guests were made: %+v", all)
	}

	good := strings.Replace(newbox, `"image_uuid": "d8e65ea2-1f3e-11e5-8557-6b43e0a88b38"`,
		`"image": "`+service(t, "web")+`"`, 1)
	good = strings.Replace(good, `"vcpus": "2"`, `"vcpus": "2", "alias": "newbox", "ports": "80"`, 1)
	do(t, h, "create", "-f", file(t, "c.json", good))
	seed := filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", guest(t, h, "newbox").UUID, "seed")
	for name, want := range map[string]string{"user-data": "ssh-rsa AAAAB3NzaC1y", "network-config": "192.0.2.53",
		"meta-data": `"local-hostname": "newbox"`} {
		if text, err := os.ReadFile(filepath.Join(seed, name)); err != nil || !strings.Contains(string(text), want) {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
	if got := do(t, h, "list", "-H", "-o", "type,ram,state,nics.0.ip,image", "nics.*.nic_tag=admin"); got !=
		"KVM  256  running  192.0.2.10  -" {
		t.Errorf("list prints %q", got)
	}
	other := strings.Replace(good, "newbox", "other", 1)
	refused(t, h, 1, "has this address", "create", "-f", file(t, "d.json", other))
	do(t, h, "delete", "newbox")
	leavesNothing(t, h)
}

// apply makes guests what files say, shows the difference first, and changes nothing the
// second time. update changes all or nothing.
func TestApplyAndUpdate(t *testing.T) {
	h := home(t)
	yaml := "- {brand: docker, alias: a, image: " + tiny(t, h) + ", ram: 64, tags: {role: front}, " +
		"customer_metadata: {greeting: hello}}\n- {brand: lx, alias: b, image: tiny, autoboot: false}\n"
	path := file(t, "guests.yaml",
		strings.Replace(yaml, "image: tiny,", "image: "+filepath.Join(h.Dir, "tiny")+",", 1))
	said := func(args ...string) string {
		t.Helper()
		out, errs, code := h.Bakeoff(t, limit, append([]string{"vm"}, args...)...)
		if code != 0 || out != "" {
			t.Fatalf("vm %q: exit code %d\n%s%s", args, code, out, errs)
		}
		return errs
	}
	if got := said("apply", "-f", path, "-n"); !strings.Contains(got, "a: create a guest of brand docker") ||
		len(guests(t, h)) != 0 {
		t.Errorf("apply -n: %s", got)
	}
	said("apply", "-f", path)
	if got := said("apply", "-f", filepath.Dir(path)); got != "a: no change\nb: no change\n" {
		t.Errorf("the second apply prints %s", got)
	}
	a := guest(t, h, "a")
	if a.State != vm.Running || guest(t, h, "b").State != vm.Configured {
		t.Errorf("%+v", guests(t, h))
	}
	metadata := filepath.Join(h.Variable("BAKEOFF_STATE"), "vm", a.UUID, "metadata")
	if text, err := os.ReadFile(filepath.Join(metadata, "customer_metadata", "greeting")); string(text) != "hello" {
		t.Errorf("the container sees %q, %v", text, err)
	}
	if got := said("update", "a", "ram=64"); !strings.HasPrefix(got, "no change") {
		t.Errorf("update without a change: %s", got)
	}
	if got := said("update", "a", "ram=128", "alias=c"); !strings.Contains(got, `alias: "a" -> "c" (live)`) ||
		!strings.Contains(got, "ram: 64 -> 128 (live)") {
		t.Errorf("update: %s", got)
	}
	before := guest(t, h, "c")
	refused(t, h, 1, "it is fixed", "update", "c", "ram=256", "brand=lx")
	refused(t, h, 1, "no ZFS data", "update", "c", "zfs_io_priority=7")
	refused(t, h, 1, "did you mean", "update", "c", "-f", file(t, "u.json", `{"rma": 1}`))
	if changes := manifest.Diff(before.Guest, guest(t, h, "c").Guest); len(changes) > 0 {
		t.Errorf("refused updates changed %v", changes)
	}
	change := `{"set_tags": {"role": "back"}, "remove_customer_metadata": "greeting"}`
	do(t, h, "update", "c", "-f", file(t, "v.json", change))
	if got := do(t, h, "lookup", "-1", "tags.role=back"); got != a.UUID {
		t.Errorf("lookup prints %q", got)
	}
	if _, err := os.Stat(filepath.Join(metadata, "customer_metadata", "greeting")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("removed metadata: %v", err)
	}
	do(t, h, "validate", "create", "-f", path)
	refused(t, h, 1, "it is fixed", "validate", "update", "c", "-f", file(t, "w.json", `{"brand": "lx"}`))
	if _, _, code := h.Bakeoff(t, limit, "vm", "validate", "nothing"); code != 2 {
		t.Errorf("wrong usage: exit code %d", code)
	}
	removeGuests(t, h)
	leavesNothing(t, h)
}

// After a power cut, as after a shutdown, the guests with autoboot come back, and no others.
func TestAutoboot(t *testing.T) {
	h := home(t)
	dir := tiny(t, h)
	for _, name := range []string{"a", "b", "stopped"} {
		do(t, h, "run", dir, "--brand", "docker", "--memory", "32MiB", "--name", name)
	}
	do(t, h, "stop", "stopped")
	states := func() string { return do(t, h, "list", "-p", "-s", "alias", "-o", "alias,state") }
	killProcesses(t, h.Dir, "vm\x00supervise") // the power of the host is cut
	for end := time.Now().Add(time.Minute); states() != "a:failed\nb:failed\nstopped:stopped"; {
		if time.Now().After(end) {
			t.Fatalf("after a power cut: %s", states())
		}
		time.Sleep(20 * time.Millisecond)
	}
	do(t, h, "start", "--autoboot")
	do(t, h, "start", "--autoboot")
	if got := states(); got != "a:running\nb:running\nstopped:stopped" {
		t.Errorf("after a boot: %s", got)
	}
	do(t, h, "stop", "--all")
	if got := states(); got != "a:stopped\nb:stopped\nstopped:stopped" {
		t.Errorf("after a shutdown: %s", got)
	}
	do(t, h, "start", "--autoboot")
	if got := states(); got != "a:running\nb:running\nstopped:stopped" {
		t.Errorf("after another boot: %s", got)
	}
	refused(t, h, 2, "one GUEST, or --all", "stop")
	refused(t, h, 2, "one GUEST, or --autoboot", "start", "a", "--autoboot")
	removeGuests(t, h)
	leavesNothing(t, h)
}
